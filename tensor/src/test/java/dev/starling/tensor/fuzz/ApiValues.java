package dev.starling.tensor.fuzz;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.conformance.FormulaOps;
import dev.starling.tensor.op.FormulaOp;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.reflect.Array;
import java.lang.reflect.Executable;
import java.lang.reflect.GenericArrayType;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Proxy;
import java.lang.reflect.Type;
import java.lang.reflect.TypeVariable;
import java.lang.reflect.WildcardType;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;

/** Values for parameters of any type, legal and extreme, and a text that shows how they were made. */
final class ApiValues {
    private static final int DEPTH = 4;
    private static final double[] REALS = {0, -1, 1, Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY,
        0x1p31 - 1, 0x1p63, -0x1p63, Double.MAX_VALUE, Double.MIN_VALUE, -0.0, 0.5, 1e-300};
    private static final long[] WHOLES = {0, -1, 1, 2, Integer.MAX_VALUE, Integer.MIN_VALUE, Long.MAX_VALUE,
        Long.MIN_VALUE, 1L << 62, 1L << 40, 1L << 31, 65_536, -2};

    private final SplittableRandom random;
    private final Map<Class<?>, List<Executable>> makers;
    private final Path folder;
    /** Whether a {@code null} was drawn: then a NullPointerException is a valid outcome. */
    boolean nulls;
    /** Whether a function was drawn, whose results may be useless to its caller. */
    boolean functions;

    ApiValues(SplittableRandom random, Map<Class<?>, List<Executable>> makers, Path folder) {
        this.random = random;
        this.makers = makers;
        this.folder = folder;
    }

    /** No value of a type could be made. */
    static final class NoValueException extends Exception {
        private static final long serialVersionUID = 1L;

        NoValueException(String type) {
            super(type, null, false, false);
        }
    }

    /** Returns arguments, of which {@code wild} in 8 are extreme. */
    Object[] arguments(Executable member, int wild, int depth, StringBuilder text) throws NoValueException {
        Type[] types = member.getGenericParameterTypes();
        Object[] values = new Object[types.length];
        for (int i = 0; i < values.length; i++) {
            StringBuilder one = new StringBuilder();
            values[i] = value(types[i], random.nextInt(8) < wild, depth, one);
            text.append(i == 0 ? "" : ", ").append(one);
        }
        return values;
    }

    /** Returns a value of a type, and appends how it was made. */
    Object value(Type type, boolean wild, int depth, StringBuilder text) throws NoValueException {
        Class<?> raw = raw(type);
        if (wild && !raw.isPrimitive() && random.nextInt(6) == 0) {
            nulls = true;
            text.append("null");
            return null;
        }
        int start = text.length();
        Object value = make(type, raw, wild, depth, text);
        if (text.length() == start) {
            text.append(shown(value));
        }
        return value;
    }

    private static String shown(Object value) {
        String s = value instanceof Tensor t && t.isClosed() ? "closed tensor" : value instanceof Object[] a
                ? Arrays.deepToString(a) : value instanceof int[] a ? Arrays.toString(a)
                : value instanceof long[] a ? Arrays.toString(a) : value instanceof double[] a ? Arrays.toString(a)
                : value instanceof Tensor t ? "Tensor " + t.spec() : String.valueOf(value);
        return s.length() > 200 ? s.substring(0, 200) + "..." : s;
    }

    static Class<?> raw(Type type) {
        return switch (type) {
            case Class<?> c -> c;
            case ParameterizedType p -> (Class<?>) p.getRawType();
            case GenericArrayType a -> Array.newInstance(raw(a.getGenericComponentType()), 0).getClass();
            case WildcardType w -> raw(w.getUpperBounds()[0]);
            case TypeVariable<?> v -> v.getBounds()[0] == Object.class ? Tensor.class : raw(v.getBounds()[0]);
            default -> Object.class;
        };
    }

    private Object make(Type type, Class<?> raw, boolean wild, int depth, StringBuilder text) throws NoValueException {
        if (raw.isPrimitive() || raw == Integer.class || raw == Long.class || raw == Double.class
                || raw == Boolean.class || raw == Float.class) {
            return primitive(raw, wild);
        }
        if (raw.isArray()) {
            return array(type, raw, wild, depth);
        }
        if (raw.isEnum()) {
            return raw.getEnumConstants()[random.nextInt(raw.getEnumConstants().length)];
        }
        Object plain = plain(raw, wild);
        if (plain != null) {
            return plain;
        }
        if (List.class.isAssignableFrom(raw) || raw == Iterable.class || raw == java.util.Collection.class
                || raw == Set.class || raw == Map.class || raw == Optional.class) {
            return collection(type, raw, wild, depth);
        }
        if (makers.containsKey(raw)) {
            return made(raw, wild, depth, text);
        }
        if (raw.isInterface()) {
            return function(raw, text);
        }
        throw new NoValueException(raw.getName());
    }

    private Object primitive(Class<?> raw, boolean wild) {
        long whole = wild ? WHOLES[random.nextInt(WHOLES.length)] : random.nextLong(1, 4);
        double real = wild ? REALS[random.nextInt(REALS.length)] : 0.5;
        return switch (raw.getName()) {
            case "boolean", "java.lang.Boolean" -> random.nextBoolean();
            case "int", "java.lang.Integer" -> Math.clamp(whole, Integer.MIN_VALUE, Integer.MAX_VALUE);
            case "long", "java.lang.Long" -> whole;
            case "double", "java.lang.Double" -> real;
            case "float", "java.lang.Float" -> (float) real;
            case "short" -> (short) whole;
            case "byte" -> (byte) whole;
            default -> (char) whole;
        };
    }

    private Object plain(Class<?> raw, boolean wild) {
        if (raw == Tensor.class || raw == Object.class || raw == AutoCloseable.class) {
            return tensor(wild);
        }
        if (raw == String.class || raw == CharSequence.class) {
            return wild ? of("", "x".repeat(70_000), "\u0000", "..", "ij,jk->ik", "::-1, None, ...", "../x", "%s", "é")
                    : of("x", "i->i", "0", "a");
        }
        if (raw == Shape.class) {
            return wild ? of(Shape.scalar(), Shape.of(0), Shape.of(1L << 40), Shape.of(2, 3), Shape.of(0, 5, 0),
                    Shape.of(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)) : of(Shape.of(2, 3), Shape.of(3));
        }
        if (raw == Device.class) {
            return wild ? of(Device.cpu(), Device.reference(), Device.cuda(0), Device.of("nothing", 3))
                    : Device.cpu();
        }
        if (raw == Spec.class) {
            return new Spec(wild ? of(DType.values()) : DType.F32, (Shape) plain(Shape.class, wild),
                    (Device) plain(Device.class, wild && random.nextInt(4) == 0));
        }
        if (raw == Generator.class) {
            return Generator.seeded(1);
        }
        if (raw == MemorySegment.class) {
            return wild ? of(MemorySegment.NULL, MemorySegment.ofArray(new byte[24]), Arena.ofAuto().allocate(24, 8),
                    Arena.ofAuto().allocate(1)) : Arena.ofAuto().allocate(64, 8);
        }
        if (raw == Path.class) {
            return wild ? of(folder, folder.resolve("missing/x"), Path.of("/dev/null/x"))
                    : folder.resolve("file" + random.nextInt(3));
        }
        if (raw == Duration.class) {
            return wild ? of(Duration.ZERO, Duration.ofSeconds(-1), Duration.ofSeconds(Long.MAX_VALUE))
                    : Duration.ofMillis(1);
        }
        if (raw == Class.class) {
            return Tensor.class;
        }
        if (raw == FormulaOp.class) {
            return of(FormulaOps.fields().keySet().toArray());
        }
        return raw == Thread.class ? Thread.currentThread() : raw == Throwable.class ? new RuntimeException("x") : null;
    }

    @SafeVarargs
    private <T> T of(T... values) {
        return values[random.nextInt(values.length)];
    }

    private Tensor tensor(boolean wild) {
        long[] dims = wild ? of(new long[] {2, 3}, new long[0], new long[] {0}, new long[] {3, 0, 2}, new long[] {1},
                new long[] {2, 3, 4}, new long[] {1, 2, 3, 3}, new long[] {1, 1, 2, 2, 2}) : of(new long[] {2, 3},
                new long[] {3, 3}, new long[] {3}, new long[] {1, 2, 4, 4});
        DType type = wild ? of(DType.values()) : DType.F32;
        Device device = wild && random.nextInt(8) == 0 ? Device.reference() : Device.cpu();
        Tensor t = Device.with(device, () -> Tensor.full(type, wild ? REALS[random.nextInt(REALS.length)] : 1, dims));
        if (wild && random.nextInt(8) == 0) {
            t.close();
        } else if (wild && random.nextInt(4) == 0 && dims.length > 1) {
            return t.transpose(0, 1);
        } else if (wild && random.nextInt(6) == 0) {
            return Scope.detached(() -> Tensor.scalar(1).expand(5, 2));
        }
        return t;
    }

    private Object array(Type type, Class<?> raw, boolean wild, int depth) throws NoValueException {
        Type of = type instanceof GenericArrayType g ? g.getGenericComponentType() : raw.getComponentType();
        int n = wild ? of(0, 1, 2, 3, 17) : 2;
        Object array = Array.newInstance(raw.getComponentType(), n);
        for (int i = 0; i < n; i++) {
            Array.set(array, i, value(of, wild && random.nextInt(3) == 0, depth + 1, new StringBuilder()));
        }
        return array;
    }

    private Object collection(Type type, Class<?> raw, boolean wild, int depth) throws NoValueException {
        Type[] of = type instanceof ParameterizedType p ? p.getActualTypeArguments() : new Type[] {Tensor.class,
            Tensor.class};
        int n = wild ? random.nextInt(3) : 1;
        List<Object> all = new ArrayList<>();
        Map<Object, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < n; i++) {
            Object one = value(of[0], wild && random.nextInt(3) == 0, depth + 1, new StringBuilder());
            all.add(one);
            if (raw == Map.class) {
                map.put(one, value(of[1], wild && random.nextInt(3) == 0, depth + 1, new StringBuilder()));
            }
        }
        return raw == Map.class ? map : raw == Set.class ? new HashSet<>(all) : raw == Optional.class
                ? (all.isEmpty() ? Optional.empty() : Optional.ofNullable(all.getFirst())) : all;
    }

    /** Returns an object of one of the API's types, from one of its constructors or factories. */
    private Object made(Class<?> raw, boolean wild, int depth, StringBuilder text) throws NoValueException {
        if (depth >= DEPTH) {
            throw new NoValueException(raw.getName());
        }
        List<Executable> all = makers.get(raw);
        for (int trial = 0; trial < 6; trial++) {
            Executable maker = all.get(random.nextInt(all.size()));
            StringBuilder argumentText = new StringBuilder();
            try {
                Object[] arguments = arguments(maker, wild && trial < 3 ? 2 : 0, depth + 1, argumentText);
                Object made = call(maker, null, arguments);
                if (made != null) {
                    text.append(name(maker)).append("(").append(argumentText).append(")");
                    return made;
                }
            } catch (InvocationTargetException | NoValueException e) {
                if (e.getCause() instanceof Error error && !(error instanceof Watch.TooLarge)) {
                    throw error;
                }
            }
        }
        throw new NoValueException(raw.getName());
    }

    static String name(Executable member) {
        return member.getDeclaringClass().getName().replaceAll(".*\\.", "").replace('$', '.')
                + (member instanceof Method ? "." + member.getName() : ".new");
    }

    static Object call(Executable member, Object receiver, Object... arguments) throws InvocationTargetException {
        try {
            return member instanceof Method m ? m.invoke(receiver, arguments)
                    : ((java.lang.reflect.Constructor<?>) member).newInstance(arguments);
        } catch (IllegalAccessException | InstantiationException e) {
            throw new AssertionError(member.toString(), e);
        }
    }

    /** Returns a function that returns legal values, or {@code null}. */
    private Object function(Class<?> raw, StringBuilder text) {
        functions = true;
        text.append(raw.getSimpleName());
        return Proxy.newProxyInstance(raw.getClassLoader(), new Class<?>[] {raw}, (proxy, method, given) -> {
            if (method.getDeclaringClass() == Object.class) {
                return switch (method.getName()) {
                    case "hashCode" -> 0;
                    case "equals" -> proxy == given[0];
                    default -> raw.getSimpleName();
                };
            }
            if (method.isDefault() && Modifier.isPublic(raw.getModifiers())) {
                return java.lang.reflect.InvocationHandler.invokeDefault(proxy, method, given);
            }
            if (method.getReturnType() == void.class) {
                return null;
            }
            if (given != null && given.length > 0 && method.getReturnType().isInstance(given[0])) {
                return given[0];
            }
            try {
                return value(method.getGenericReturnType(), false, DEPTH - 1, new StringBuilder());
            } catch (NoValueException e) {
                return null;
            }
        });
    }
}
