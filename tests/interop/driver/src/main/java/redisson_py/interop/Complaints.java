package redisson_py.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/** Keeps what Redisson and Netty log as a warning or an error. */
final class Complaints extends Handler {
    private final List<String> lines = new ArrayList<>();

    Complaints() {
        Logger root = Logger.getLogger("");
        root.setLevel(Level.WARNING);
        root.addHandler(this);
    }

    synchronized List<String> take() {
        List<String> taken = new ArrayList<>(lines);
        lines.clear();
        return taken;
    }

    @Override
    public synchronized void publish(LogRecord record) {
        String line = record.getLoggerName() + ": " + record.getMessage();
        lines.add(record.getThrown() == null ? line : line + ": " + record.getThrown());
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
}
