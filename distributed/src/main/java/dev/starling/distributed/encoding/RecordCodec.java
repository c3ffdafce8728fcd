package dev.starling.distributed.encoding;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.agrona.DirectBuffer;

/**
 * Encodes messages that are rare and not large: records, and sealed interfaces of which all implementations are
 * records. Components are again such types, or numbers, booleans, texts, paths, bytes, lists, and maps. An element of a
 * list or a map takes a byte or more, so a list of records without components is refused. Sender and receiver must have
 * the same version of a type. The constructor of a record can refuse what a peer has sent.
 */
public final class RecordCodec<T> {
    /** The JVM creates reflective objects anew at each request: looking a record up takes longer than reading it. */
    private static final ClassValue<Shape> SHAPES = new ClassValue<>() {
        @Override
        protected Shape computeValue(Class<?> type) {
            return Shape.of(type);
        }
    };

    /** Bytes of a message that ranks exchange at a time; a shorter part is a message's last one. */
    private static final int PART = 16_000;
    /** Maximum number of bytes of a message that ranks exchange. */
    private static final int MAX_EXCHANGED = 16 << 20;

    private final Class<T> type;

    /** The components of a record, in order, and how to create one of these. */
    private record Shape(Method[] accessors, Type[] types, Constructor<?> constructor) {
        static Shape of(Class<?> type) {
            RecordComponent[] components = type.getRecordComponents();
            Method[] accessors = new Method[components.length];
            Type[] types = new Type[components.length];
            Class<?>[] parameters = new Class<?>[components.length];
            for (int i = 0; i < components.length; i++) {
                accessors[i] = components[i].getAccessor();
                accessors[i].setAccessible(true);
                types[i] = components[i].getGenericType();
                parameters[i] = components[i].getType();
            }
            try {
                Constructor<?> constructor = type.getDeclaredConstructor(parameters);
                constructor.setAccessible(true);
                return new Shape(accessors, types, constructor);
            } catch (NoSuchMethodException e) {
                throw new IllegalArgumentException(type + " is no record", e);
            }
        }
    }

    private RecordCodec(Class<T> type) {
        this.type = type;
    }

    /** Returns the codec of a type. */
    public static <T> RecordCodec<T> of(Class<T> type) {
        return new RecordCodec<>(type);
    }

    /** Encodes a message. */
    public byte[] encode(T message) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            write(out, type, message);
        } catch (IOException | ReflectiveOperationException e) {
            throw new IllegalStateException("cannot encode " + message, e);
        }
        return bytes.toByteArray();
    }

    /**
     * Decodes a message.
     *
     * @throws IOException if the bytes are not a message of this type
     */
    public T decode(byte[] encoded) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(encoded));
        T message;
        try {
            message = type.cast(read(in, type));
        } catch (ReflectiveOperationException | RuntimeException e) {
            throw new IOException("malformed message: " + (e.getCause() == null ? e : e.getCause()), e);
        }
        if (in.available() > 0) {
            throw new IOException("malformed message: " + in.available() + " bytes too long");
        }
        return message;
    }

    /**
     * Decodes a message in a buffer.
     *
     * @throws IOException if the bytes are not a message of this type
     */
    public T decode(DirectBuffer buffer, int offset, int length) throws IOException {
        byte[] encoded = new byte[length];
        buffer.getBytes(offset, encoded);
        return decode(encoded);
    }

    /**
     * Lets each rank pass a message to all others, in as many parts as the longest message needs; returns the messages
     * by rank. Collective; waits.
     *
     * @throws DistributedException if the bytes of a rank are not a message of this type
     */
    public List<T> exchange(Collectives collectives, T own) {
        List<T> messages = new ArrayList<>();
        for (ByteArrayOutputStream encoded : exchange(collectives, encode(own))) {
            try {
                messages.add(decode(encoded.toByteArray()));
            } catch (IOException e) {
                throw new DistributedException("rank " + messages.size() + " sent a malformed " + type.getSimpleName()
                        + "; use the same version of this library on all ranks", e);
            }
        }
        return messages;
    }

    private List<ByteArrayOutputStream> exchange(Collectives collectives, byte[] own) {
        List<ByteArrayOutputStream> whole = new ArrayList<>();
        int longest = PART;
        for (int from = 0; longest == PART; from += PART) {
            if (from > MAX_EXCHANGED) {
                throw new DistributedException("a rank's " + type.getSimpleName() + " is longer than " + MAX_EXCHANGED
                        + " bytes, the maximum");
            }
            byte[][] parts = collectives.exchange(Arrays.copyOfRange(own, Math.min(from, own.length),
                    Math.min(from + PART, own.length)));
            longest = 0;
            for (int rank = 0; rank < parts.length; rank++) {
                if (from == 0) {
                    whole.add(new ByteArrayOutputStream());
                }
                whole.get(rank).writeBytes(parts[rank]);
                longest = Math.max(longest, parts[rank].length);
            }
        }
        return whole;
    }

    private static void write(DataOutputStream out, Type type, Object value) throws IOException,
            ReflectiveOperationException {
        switch (value) {
            case Integer i -> out.writeInt(i);
            case Long l -> out.writeLong(l);
            case Double d -> out.writeDouble(d);
            case Boolean b -> out.writeBoolean(b);
            case byte[] bytes -> write(out, bytes);
            case String text -> write(out, text.getBytes(StandardCharsets.UTF_8));
            case Path path -> write(out, path.toString().getBytes(StandardCharsets.UTF_8));
            case List<?> list -> {
                out.writeInt(list.size());
                for (Object each : list) {
                    write(out, argument(type, 0), each);
                }
            }
            case Map<?, ?> map -> {
                out.writeInt(map.size());
                for (Map.Entry<?, ?> each : map.entrySet()) {
                    write(out, argument(type, 0), each.getKey());
                    write(out, argument(type, 1), each.getValue());
                }
            }
            case Object _ when ((Class<?>) type).isSealed() -> {
                Class<?>[] kinds = ((Class<?>) type).getPermittedSubclasses();
                int kind = 0;
                while (!kinds[kind].isInstance(value)) {
                    kind++;
                }
                out.writeByte(kind);
                write(out, kinds[kind], value);
            }
            default -> {
                Shape shape = SHAPES.get((Class<?>) type);
                for (int i = 0; i < shape.accessors.length; i++) {
                    write(out, shape.types[i], shape.accessors[i].invoke(value));
                }
            }
        }
    }

    private static void write(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes.length);
        out.write(bytes);
    }

    private static Type argument(Type type, int number) {
        return ((ParameterizedType) type).getActualTypeArguments()[number];
    }

    private static Object read(DataInputStream in, Type type) throws IOException, ReflectiveOperationException {
        if (type instanceof ParameterizedType generic) {
            return generic.getRawType() == Map.class ? readMap(in, type) : readList(in, type);
        }
        Class<?> plain = (Class<?>) type;
        if (plain.isSealed()) {
            return read(in, plain.getPermittedSubclasses()[in.readUnsignedByte()]);
        }
        return switch (plain.getSimpleName()) {
            case "int", "Integer" -> in.readInt();
            case "long", "Long" -> in.readLong();
            case "double" -> in.readDouble();
            case "boolean" -> in.readBoolean();
            case "byte[]" -> readBytes(in);
            case "String" -> new String(readBytes(in), StandardCharsets.UTF_8);
            case "Path" -> Path.of(new String(readBytes(in), StandardCharsets.UTF_8));
            default -> readRecord(in, plain);
        };
    }

    private static byte[] readBytes(DataInputStream in) throws IOException {
        int length = in.readInt();
        byte[] bytes = in.readNBytes(length);
        if (bytes.length < length) {
            throw new EOFException("a text or array of " + length + " bytes is cut off");
        }
        return bytes;
    }

    /** Reads the number of elements of a list or a map, which is not above that of the bytes that are left. */
    private static int readCount(DataInputStream in) throws IOException {
        int count = in.readInt();
        if (count < 0 || count > in.available()) {
            throw new EOFException("a list or map of " + count + " elements is cut off");
        }
        return count;
    }

    private static List<Object> readList(DataInputStream in, Type type) throws IOException,
            ReflectiveOperationException {
        List<Object> list = new ArrayList<>();
        for (int n = readCount(in); n > 0; n--) {
            list.add(read(in, argument(type, 0)));
        }
        return list;
    }

    private static Map<Object, Object> readMap(DataInputStream in, Type type) throws IOException,
            ReflectiveOperationException {
        Map<Object, Object> map = new LinkedHashMap<>();
        for (int n = readCount(in); n > 0; n--) {
            map.put(read(in, argument(type, 0)), read(in, argument(type, 1)));
        }
        return map;
    }

    private static Object readRecord(DataInputStream in, Class<?> type) throws IOException,
            ReflectiveOperationException {
        Shape shape = SHAPES.get(type);
        Object[] values = new Object[shape.types.length];
        for (int i = 0; i < values.length; i++) {
            values[i] = read(in, shape.types[i]);
        }
        return shape.constructor.newInstance(values);
    }
}
