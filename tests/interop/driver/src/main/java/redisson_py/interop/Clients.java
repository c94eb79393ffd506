package redisson_py.interop;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson clients with the settings that a test asks for, whatever release is on the path. */
final class Clients {
    private Clients() {}

    @SuppressWarnings({"unchecked", "rawtypes"})
    static RedissonClient connect(String address, String prefix, Map<String, Object> settings)
            throws ReflectiveOperationException {
        Config config = new Config();
        Object server = servers(config, address);
        if (!prefix.isEmpty()) {
            // It is elsewhere, and its type has another package, in another release.
            Object owner = has(config, "nameMapper") ? config : server;
            Method setter = setter(owner, "nameMapper");
            Class<?> type = setter.getParameterTypes()[0];
            setter.invoke(
                    owner,
                    Proxy.newProxyInstance(
                            type.getClassLoader(), new Class<?>[] {type}, mapper(prefix)));
        }
        for (Map.Entry<String, Object> setting : settings.entrySet()) {
            Object owner = has(config, setting.getKey()) ? config : server;
            Method setter = setter(owner, setting.getKey());
            Class<?> type = setter.getParameterTypes()[0];
            Object value = setting.getValue();
            if (value instanceof Number number) {
                boolean wide = type == long.class;
                value = wide ? (Object) number.longValue() : (Object) number.intValue();
            } else if (type.isEnum()) {
                value = Enum.valueOf((Class) type, (String) value);
            }
            setter.invoke(owner, value);
        }
        return Redisson.create(config);
    }

    /**
     * The part of the configuration for such servers: `redis+cluster://host:port,host:port`,
     * `redis+sentinel://host:port,host:port/service`, or the URL of one server.
     */
    private static Object servers(Config config, String address) {
        String[] parts = address.split("://", 2);
        if (!parts[0].contains("+")) {
            return config.useSingleServer().setAddress(address);
        }
        String[] place = parts[1].split("/", 2);
        String[] nodes =
                Arrays.stream(place[0].split(","))
                        .map(node -> "redis://" + node)
                        .toArray(String[]::new);
        return switch (parts[0]) {
            case "redis+cluster" -> config.useClusterServers().addNodeAddress(nodes);
            case "redis+sentinel" ->
                    config.useSentinelServers().addSentinelAddress(nodes).setMasterName(place[1]);
            default -> throw new IllegalArgumentException("no servers are known as " + parts[0]);
        };
    }

    private static InvocationHandler mapper(String prefix) {
        return (proxy, method, args) ->
                switch (method.getName()) {
                    case "map" -> prefix + args[0];
                    case "unmap" -> ((String) args[0]).substring(prefix.length());
                    case "hashCode" -> System.identityHashCode(proxy);
                    case "equals" -> proxy == args[0];
                    default -> "prefix " + prefix;
                };
    }

    private static boolean has(Object owner, String setting) {
        return !setters(owner, setting).isEmpty();
    }

    private static Method setter(Object owner, String setting) {
        List<Method> found = setters(owner, setting);
        if (found.isEmpty()) {
            throw new IllegalArgumentException("this Redisson has no setting " + setting);
        }
        return found.get(0);
    }

    private static List<Method> setters(Object owner, String setting) {
        String name = "set" + Character.toUpperCase(setting.charAt(0)) + setting.substring(1);
        return Arrays.stream(owner.getClass().getMethods())
                .filter(method -> method.getName().equals(name) && !method.isBridge())
                .toList();
    }
}
