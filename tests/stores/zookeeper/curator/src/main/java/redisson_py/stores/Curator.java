package redisson_py.stores;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.retry.RetryOneTime;

/**
 * Calls Curator's locks as lines on the standard input say: `id thread verb lock words...`.
 *
 * <p>A lock is the path of an InterProcessMutex, or a kind and a path: `read:/path`, `write:/path`
 * for the sides of an InterProcessReadWriteLock, and `semaphore:/path` for an
 * InterProcessSemaphoreMutex. Each thread is a Java thread of its own, so that it can own a lock
 * while others wait. The answer is a line `id result`; a result that begins with `!` is an error.
 */
public final class Curator {
  private static final LeaderSelectorListenerAdapter NOTHING =
      new LeaderSelectorListenerAdapter() {
        @Override
        public void takeLeadership(CuratorFramework client) {}
      };

  private final CuratorFramework client;
  private final Map<String, InterProcessLock> locks = new ConcurrentHashMap<>();
  private final Map<String, InterProcessReadWriteLock> readWriteLocks = new ConcurrentHashMap<>();
  private final Map<String, Term> terms = new ConcurrentHashMap<>();
  private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();

  private Curator(String hosts, int sessionMs) {
    client = CuratorFrameworkFactory.newClient(hosts, sessionMs, 5000, new RetryOneTime(100));
    client.start();
  }

  public static void main(String[] args) throws Exception {
    Curator curator = new Curator(args[0], Integer.parseInt(args[1]));
    BufferedReader orders =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = orders.readLine(); line != null; line = orders.readLine()) {
      String[] order = line.split(" ");
      curator
          .threads
          .computeIfAbsent(order[1], name -> Executors.newSingleThreadExecutor())
          .execute(() -> answer(order[0], curator.result(order)));
    }
    System.exit(0);
  }

  private String result(String[] order) {
    try {
      switch (order[2]) {
        case "acquire":
          return "" + lock(order[3]).acquire(Long.parseLong(order[4]), TimeUnit.MILLISECONDS);
        case "release":
          lock(order[3]).release();
          return "true";
        case "participants":
          return String.join(",", mutex(order[3]).getParticipantNodes());
        case "delete":
          List<String> nodes = new ArrayList<>(mutex(order[3]).getParticipantNodes());
          client.delete().forPath(nodes.get(Integer.parseInt(order[4])));
          return "true";
        case "campaign":
          return "" + campaign(order[3], order[4], Long.parseLong(order[5]));
        case "resign":
          terms.remove(order[3]).close();
          return "true";
        case "leader":
          Participant leader = new LeaderSelector(client, order[3], NOTHING).getLeader();
          return leader.getId() + " " + (leader.isLeader() ? 1 : 0);
        case "crowd":
          for (int times = Integer.parseInt(order[5]); times > 0; times--) {
            increment(lock(order[3]), Path.of(order[4]), order[6]);
          }
          return "true";
        case "leave":
          client.close();
          return "true";
        default:
          return "!unknown verb";
      }
    } catch (Exception error) {
      return "!" + error;
    }
  }

  /** Stands for election; returns whether it leads within the time, and if not, stands no more. */
  private boolean campaign(String path, String id, long waitMs) throws Exception {
    Term term = new Term();
    LeaderSelector selector = term.selector = new LeaderSelector(client, path, term);
    selector.setId(id);
    selector.start();
    if (term.elected.await(waitMs, TimeUnit.MILLISECONDS)) {
      terms.put(path, term);
      return true;
    }
    term.close();
    return false;
  }

  /** One candidate, and its leadership until it is closed. */
  private static final class Term extends LeaderSelectorListenerAdapter {
    private final CountDownLatch elected = new CountDownLatch(1);
    private final CountDownLatch ended = new CountDownLatch(1);
    private LeaderSelector selector;

    @Override
    public void takeLeadership(CuratorFramework client) throws Exception {
      elected.countDown();
      ended.await();
    }

    private void close() {
      ended.countDown();
      selector.close();
    }
  }

  private InterProcessMutex mutex(String name) {
    return (InterProcessMutex) lock(name);
  }

  private InterProcessLock lock(String name) {
    return locks.computeIfAbsent(name, this::newLock);
  }

  private InterProcessLock newLock(String name) {
    String path = name.substring(name.indexOf(":") + 1);
    switch (name.substring(0, name.length() - path.length())) {
      case "read:":
        return readWriteLock(path).readLock();
      case "write:":
        return readWriteLock(path).writeLock();
      case "semaphore:":
        return new InterProcessSemaphoreMutex(client, path);
      default:
        return new InterProcessMutex(client, path);
    }
  }

  /** Returns the lock whose sides know each other: a thread that writes may read. */
  private InterProcessReadWriteLock readWriteLock(String path) {
    return readWriteLocks.computeIfAbsent(
        path, absent -> new InterProcessReadWriteLock(client, absent));
  }

  /** Adds a line to a file that only the lock protects. */
  private static void increment(InterProcessLock lock, Path file, String line)
      throws Exception {
    lock.acquire();
    String lines = Files.readString(file);
    Thread.sleep(1);
    Path own = Path.of(file + line);
    Files.writeString(own, lines + line + "\n");
    Files.move(own, file, StandardCopyOption.ATOMIC_MOVE);
    lock.release();
  }

  private static synchronized void answer(String id, String result) {
    System.out.println(id + " " + result);
    System.out.flush();
  }
}
