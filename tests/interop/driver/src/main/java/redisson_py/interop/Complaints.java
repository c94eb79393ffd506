package redisson_py.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/** Keeps what Redisson and Netty log as a warning or an error, and what no thread of theirs caught. */
final class Complaints extends Handler {
    private final List<String> lines = new ArrayList<>();

    Complaints() {
        Logger root = Logger.getLogger("");
        root.setLevel(Level.WARNING);
        root.addHandler(this);
        // What a listener raises is not logged: it ends a thread of Redisson's.
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> add("uncaught: " + error));
    }

    synchronized List<String> take() {
        List<String> taken = new ArrayList<>(lines);
        lines.clear();
        return taken;
    }

    private synchronized void add(String line) {
        lines.add(line);
    }

    @Override
    public void publish(LogRecord record) {
        String line = record.getLoggerName() + ": " + record.getMessage();
        add(record.getThrown() == null ? line : line + ": " + record.getThrown());
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
}
