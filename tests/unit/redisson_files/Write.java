import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.redisson.config.Config;
import org.redisson.config.HostPortNatMapper;
import org.redisson.config.ShardedSubscriptionMode;

/**
 * Writes the files beside it with Redisson's own toYAML, of 4.7.0: {@code java -cp "LIB/*" Write.java},
 * where LIB is tests/interop/driver/target/4.7.0/lib.
 *
 * <p>toYAML leaves out what a natMapper maps, and fails with an sslTruststore.
 */
public class Write {
    private static void write(String name, Config config) throws Exception {
        Files.writeString(Path.of(name + ".yaml"), config.toYAML());
    }

    public static void main(String[] args) throws Exception {
        Config single = new Config().setUsername("me").setPassword("0123");
        single.useSingleServer()
                .setAddress("redis://127.0.0.1:6379")
                .setDatabase(2)
                .setClientName("orders");
        write("single", single);

        Config masterSlave = new Config().setPassword("yes");
        masterSlave.useMasterSlaveServers()
                .setMasterAddress("rediss://redis.example:6379")
                .addSlaveAddress("rediss://redis.example:6380", "rediss://redis.example:6381")
                .setDatabase(1);
        write("masterSlave", masterSlave);

        Config sentinel = new Config().setPassword("1e3");
        sentinel.setLockWatchdogTimeout(20000)
                .setSlavesSyncTimeout(2500)
                .setCheckLockSyncedSlaves(false);
        sentinel.useSentinelServers()
                .setMasterName("orders")
                .addSentinelAddress("redis://127.0.0.1:26379", "redis://127.0.0.1:26380")
                .setSentinelUsername("watcher")
                .setSentinelPassword("null")
                .setDatabase(3);
        write("sentinel", sentinel);

        Config cluster = new Config();
        cluster.useClusterServers()
                .addNodeAddress("redis://127.0.0.1:7000", "redis://[::1]:7001")
                .setShardedSubscriptionMode(ShardedSubscriptionMode.OFF)
                .setClientName("a: #b");
        write("cluster", cluster);

        Config replicated = new Config();
        replicated.useReplicatedServers()
                .addNodeAddress("valkey://127.0.0.1:7000", "valkey://127.0.0.1:7001")
                .setDatabase(1)
                .setUsername("on")
                .setPassword("p\"w'\n\u00e9");
        write("replicated", replicated);

        Config mapped = new Config();
        HostPortNatMapper mapper = new HostPortNatMapper();
        mapper.setHostsPortMap(Map.of("10.0.0.1:6379", "127.0.0.1:7001"));
        mapped.useClusterServers().addNodeAddress("redis://127.0.0.1:7000").setNatMapper(mapper);
        write("natMapper", mapped);
    }
}
