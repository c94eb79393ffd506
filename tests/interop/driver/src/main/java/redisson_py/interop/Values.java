package redisson_py.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Array;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Calls methods by name with arguments from JSON, so that the driver need not know Redisson. */
final class Values {
    private Values() {}

    /** Call the method of this name that takes such arguments. */
    static Object invoke(Object target, String name, JsonNode args, Map<String, Object> objects)
            throws ReflectiveOperationException {
        for (Method method : methods(target, name, args.size())) {
            Optional<Object[]> values = convert(args, method.getParameterTypes(), objects);
            if (values.isPresent()) {
                return method.invoke(target, values.get());
            }
        }
        throw new NoSuchMethodException(
                target.getClass().getSimpleName() + "." + name + " with " + args);
    }

    /** What a result looks like to the test. */
    static JsonNode toJson(ObjectMapper json, Object result) {
        if (result == null
                || result instanceof Number
                || result instanceof Boolean
                || result instanceof Collection
                || result instanceof Map) {
            return json.valueToTree(result);
        }
        return json.getNodeFactory().textNode(result.toString());
    }

    /** Public methods of that name, found where they can be called: in a public type. */
    private static List<Method> methods(Object target, String name, int count) {
        List<Method> found = new ArrayList<>();
        List<Class<?>> types = new ArrayList<>(List.of(target.getClass()));
        for (int i = 0; i < types.size(); i++) {
            Class<?> type = types.get(i);
            types.addAll(List.of(type.getInterfaces()));
            if (type.getSuperclass() != null) {
                types.add(type.getSuperclass());
            }
            for (Method method : type.getMethods()) {
                boolean fits =
                        method.getName().equals(name)
                                && (method.getParameterCount() == count || isArray(method));
                if (fits && java.lang.reflect.Modifier.isPublic(method.getDeclaringClass().getModifiers())) {
                    found.add(method);
                }
            }
        }
        // A method that takes so many arguments comes before one that takes any number.
        found.sort((a, b) -> Boolean.compare(isArray(a), isArray(b)));
        return found;
    }

    private static boolean isArray(Method method) {
        return method.isVarArgs() && method.getParameterCount() == 1;
    }

    private static Optional<Object[]> convert(
            JsonNode args, Class<?>[] types, Map<String, Object> objects) {
        if (types.length == 1 && types[0].isArray()) {
            Class<?> element = types[0].getComponentType();
            Object array = Array.newInstance(element, args.size());
            for (int i = 0; i < args.size(); i++) {
                Object value = convert(args.get(i), element, objects);
                if (value == null) {
                    return Optional.empty();
                }
                Array.set(array, i, value);
            }
            return Optional.of(new Object[] {array});
        }
        Object[] values = new Object[types.length];
        for (int i = 0; i < types.length; i++) {
            values[i] = convert(args.get(i), types[i], objects);
            if (values[i] == null && (!args.get(i).isNull() || types[i].isPrimitive())) {
                return Optional.empty();
            }
        }
        return Optional.of(values);
    }

    /** The value as an object of that type, or null if it is none. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Object convert(JsonNode arg, Class<?> type, Map<String, Object> objects) {
        if (arg.has("object")) {
            Object value = objects.get(arg.get("object").asText());
            return type.isInstance(value) ? value : null;
        }
        if (arg.isIntegralNumber()) {
            if (type == long.class || type == Long.class) {
                return arg.asLong();
            }
            return type == int.class || type == Integer.class ? arg.asInt() : null;
        }
        if (arg.isBoolean()) {
            return type == boolean.class || type == Boolean.class ? arg.asBoolean() : null;
        }
        if (arg.isTextual()) {
            if (type.isEnum()) {
                return Enum.valueOf((Class) type, arg.asText());
            }
            if (type == java.time.Duration.class) {
                // A name of a unit is for another overload; which one is tried first is not promised.
                return arg.asText().startsWith("P") ? java.time.Duration.parse(arg.asText()) : null;
            }
            return type.isAssignableFrom(String.class) ? arg.asText() : null;
        }
        if (arg.isArray() && type.isAssignableFrom(ArrayList.class)) {
            List<Object> values = new ArrayList<>();
            arg.forEach(element -> values.add(convert(element, Object.class, objects)));
            return values;
        }
        if (arg.isObject() && type.isAssignableFrom(HashMap.class)) {
            return new ObjectMapper().convertValue(arg, HashMap.class);
        }
        return null;
    }
}
