package dev.starling.nn.checkpoint;

import dev.starling.errors.PlainFile;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.channels.WritableByteChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * Named tensors in the safetensors format, in a file or in memory. The format consists of the length of the header as a
 * little-endian 64-bit number, the header as JSON, and the elements in little-endian, row-major order. Nothing in such
 * a file is executed. A hostile header is rejected before memory is allocated based on it. Not safe for concurrent use.
 *
 * <pre>{@code
 * byte[] bytes = SafeTensors.bytes(model.state(), Map.of());          // for a message, a broadcast variable, ...
 * try (SafeTensors tensors = SafeTensors.of(bytes)) {
 *     tensors.into(replica.state());
 * }
 * }</pre>
 */
public final class SafeTensors implements AutoCloseable {
    private static final long MAX_HEADER_BYTES = 100_000_000;
    /** Differences between a file and a model that a message lists. */
    private static final int MAX_DIFFERENCES = 8;
    private static final int CHUNK = 1 << 24;
    private static final String REPLACE = "replace the file with an intact copy";

    /** {@code null} if the tensors are in memory. */
    private final @Nullable Path path;
    private final Source source;
    private final SafeTensorsHeader header;
    private final long dataStart;

    /** Receives the bytes of a file as they are written. */
    @FunctionalInterface
    interface Sink {
        /** Writes all remaining bytes of a buffer. */
        void write(ByteBuffer bytes) throws IOException;
    }

    /** The bytes that tensors are read from. */
    private interface Source {
        /** Fills a buffer with the bytes that start at a position. */
        void read(ByteBuffer into, long position) throws IOException;

        /** Closes the source. */
        default void close() { }
    }

    private SafeTensors(@Nullable Path path, Source source, long size) throws IOException, Json.JsonException {
        this.path = path;
        this.source = source;
        if (size < 8) {
            throw wrong("has " + size + " bytes, too few for a header", REPLACE, null);
        }
        ByteBuffer length = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
        source.read(length, 0);
        long headerBytes = length.getLong(0);
        if (headerBytes < 2 || headerBytes > MAX_HEADER_BYTES || headerBytes > size - 8) {
            throw wrong("declares a header of " + Long.toUnsignedString(headerBytes) + " bytes in a file of "
                    + size + " bytes", REPLACE, null);
        }
        ByteBuffer json = ByteBuffer.allocate((int) headerBytes);
        source.read(json, 8);
        String text = StandardCharsets.UTF_8.newDecoder().decode(json.flip()).toString();
        header = SafeTensorsHeader.parse(text, size - 8 - headerBytes);
        dataStart = 8 + headerBytes;
    }

    private CheckpointException wrong(String problem, String remedy, @Nullable Throwable cause) {
        return path == null ? CheckpointException.inMemory(problem, remedy, cause)
                : new CheckpointException(path, problem, remedy, cause);
    }

    // ---- writing ----

    /**
     * Writes tensors on any device to a file. The tensors are first written to a temporary file, which replaces the
     * file, or the target of a symbolic link, when it is complete.
     *
     * @param metadata texts to write with the tensors
     * @throws CheckpointException if the file cannot be written, or names and texts take more than 100 MB; an existing
     *     file is then unchanged
     */
    public static void write(Path path, Map<String, Parameter> tensors, Map<String, String> metadata) {
        AtomicFile.write(path, sink -> write(sink, tensors, metadata));
    }

    /**
     * Writes tensors on any device to a channel, which stays open.
     *
     * @param channel in blocking mode
     * @param metadata texts to write with the tensors
     * @throws IOException if the channel throws it or does not accept any bytes
     * @throws CheckpointException if names and texts take more than 100 MB; then nothing is written
     */
    public static void write(WritableByteChannel channel, Map<String, Parameter> tensors,
            Map<String, String> metadata) throws IOException {
        write((Sink) bytes -> {
            while (bytes.hasRemaining()) {
                int before = bytes.remaining();
                channel.write(bytes);
                if (bytes.remaining() == before) {
                    throw new IOException("the channel does not accept any bytes; use a channel in blocking mode");
                }
            }
        }, tensors, metadata);
    }

    /**
     * Returns tensors on any device in the format of a file.
     *
     * @param metadata texts to add to the tensors
     * @throws CheckpointException if the elements take more than 2,047,483,647 bytes, or names and texts more than
     *     100 MB
     */
    public static byte[] bytes(Map<String, Parameter> tensors, Map<String, String> metadata) {
        long elements = tensors.values().stream().mapToLong(p -> p.value().spec().bytes()).sum();
        if (elements > Integer.MAX_VALUE - MAX_HEADER_BYTES) {
            throw CheckpointException.inMemory("an array cannot hold " + elements + " bytes of elements",
                    "write them to a file or a channel", null);
        }
        ByteArrayOutputStream bytes = new ByteArrayOutputStream((int) elements + 1024);
        try {
            write(Channels.newChannel(bytes), tensors, metadata);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return bytes.toByteArray();
    }

    /** Writes to any sink. Tensors with larger elements are written first, so that all tensors are aligned. */
    static void write(Sink sink, Map<String, Parameter> tensors, Map<String, String> metadata) throws IOException {
        List<Map.Entry<String, Parameter>> ordered = new ArrayList<>(tensors.entrySet());
        ordered.sort((a, b) -> Integer.compare(b.getValue().value().dtype().bytes(),
                a.getValue().value().dtype().bytes()));
        Map<String, SafeTensorsHeader.Entry> entries = new LinkedHashMap<>();
        long at = 0;
        for (Map.Entry<String, Parameter> tensor : ordered) {
            SafeTensorsHeader.requireName(tensor.getKey());
            Spec spec = tensor.getValue().value().spec();
            entries.put(tensor.getKey(),
                    new SafeTensorsHeader.Entry(spec.dtype(), spec.shape(), at, at + spec.bytes()));
            at += spec.bytes();
        }
        byte[] json = new SafeTensorsHeader(metadata, entries).toJson().getBytes(StandardCharsets.UTF_8);
        if (json.length > MAX_HEADER_BYTES) {
            throw CheckpointException.inMemory("their names and texts take " + json.length + " bytes, but a header has "
                    + "at most " + MAX_HEADER_BYTES, "write fewer or shorter texts, for example of metrics with fewer "
                    + "sums", null);
        }
        int padded = (json.length + 7) / 8 * 8;
        ByteBuffer start = ByteBuffer.allocate(8 + padded).order(ByteOrder.LITTLE_ENDIAN).putLong(padded).put(json);
        while (start.hasRemaining()) {
            start.put((byte) ' ');
        }
        sink.write(start.flip());
        for (Map.Entry<String, Parameter> tensor : ordered) {
            try (Scope scope = Scope.open("save")) {
                MemorySegment elements = tensor.getValue().value().to(Device.cpu()).contiguous()
                        .readOnlySegment();
                for (long i = 0; i < elements.byteSize(); i += CHUNK) {
                    sink.write(elements.asSlice(i, Math.min(CHUNK, elements.byteSize() - i)).asByteBuffer());
                }
            }
        }
    }

    // ---- reading ----

    /**
     * Opens a file and validates its header.
     *
     * @throws CheckpointException if it cannot be read or is not a well-formed file of tensors
     */
    public static SafeTensors open(Path path) {
        if (PlainFile.isOther(path)) {
            throw new CheckpointException(path, "is " + PlainFile.OTHER, PlainFile.REMEDY, null);
        }
        FileChannel file = null;
        try {
            file = FileChannel.open(path, StandardOpenOption.READ);
            SafeTensors opened = new SafeTensors(path, source(file), file.size());
            file = null;
            return opened;
        } catch (Json.JsonException e) {
            throw new CheckpointException(path, "has a malformed header: " + e.getMessage(), REPLACE, e);
        } catch (IOException e) {
            throw new CheckpointException(path, "cannot be read: " + e, "check that the file exists and is readable",
                    e);
        } finally {
            AtomicFile.closeQuietly(file);
        }
    }

    private static Source source(FileChannel file) {
        return new Source() {
            @Override
            public void read(ByteBuffer into, long position) throws IOException {
                long at = position;
                while (into.hasRemaining()) {
                    int n = file.read(into, at);
                    if (n < 0) {
                        throw new IOException("the file ends at byte " + at);
                    }
                    at += n;
                }
            }

            @Override
            public void close() {
                AtomicFile.closeQuietly(file);
            }
        };
    }

    /**
     * Opens the result of {@link #bytes}, or the contents of a file, and validates its header.
     *
     * @param bytes are read each time a tensor is requested, so the caller must not change them
     * @throws CheckpointException if they are not well-formed
     */
    public static SafeTensors of(byte[] bytes) {
        return of(MemorySegment.ofArray(bytes));
    }

    /** Opens tensors in memory, which must stay accessible; see {@link #of(byte[])}. */
    public static SafeTensors of(MemorySegment bytes) {
        try {
            return new SafeTensors(null, (into, position) -> into.put(bytes.asSlice(position, into.remaining())
                    .asByteBuffer()), bytes.byteSize());
        } catch (Json.JsonException | IOException e) {
            throw CheckpointException.inMemory("the header is malformed: " + e.getMessage(),
                    "get an intact copy of the bytes", e);
        }
    }

    /** Returns the texts that were written with the tensors. */
    public Map<String, String> metadata() {
        return header.metadata();
    }

    /** Returns the names of the tensors in the order of the header. */
    public Set<String> names() {
        return header.entries().keySet();
    }

    /** Returns the type and shape of a tensor, with the CPU as its device. */
    public Spec spec(String name) {
        SafeTensorsHeader.Entry e = entry(name);
        return new Spec(e.dtype(), e.shape(), Device.cpu());
    }

    private SafeTensorsHeader.Entry entry(String name) {
        SafeTensorsHeader.Entry entry = header.entries().get(name);
        if (entry == null) {
            throw wrong("has no tensor \"" + name + "\"", "its tensors are " + names(), null);
        }
        return entry;
    }

    /** Reads a tensor into the current scope, on the current device. */
    public Tensor tensor(String name) {
        SafeTensorsHeader.Entry entry = entry(name);
        Device target = Device.current();
        try (Scope scope = Scope.open("load")) {
            Tensor tensor = Storage.allocate(spec(name));
            MemorySegment elements = tensor.segment();
            for (long i = 0; i < elements.byteSize(); i += CHUNK) {
                source.read(elements.asSlice(i, Math.min(CHUNK, elements.byteSize() - i)).asByteBuffer(),
                        dataStart + entry.begin() + i);
            }
            return scope.keep(tensor.to(target));
        } catch (IOException e) {
            throw wrong("cannot be read: " + e, REPLACE, e);
        }
    }

    /**
     * Reads all tensors into the parameters with the same names. All are read before the first parameter changes, which
     * takes as much memory as they have.
     *
     * @throws CheckpointException if a name is missing on either side or a type or shape differs, with all differences,
     *     or if the file cannot be read; then no parameter is changed
     */
    public void into(Map<String, Parameter> parameters) {
        requireMatching(parameters, name -> false);
        try (Scope scope = Scope.open("load")) {
            Map<String, Tensor> read = new LinkedHashMap<>();
            parameters.keySet().stream().filter(header.entries()::containsKey)
                    .forEach(name -> read.put(name, tensor(name)));
            read.forEach((name, tensor) -> Objects.requireNonNull(parameters.get(name)).set(tensor));
        }
    }

    /**
     * Reads tensors into parameters, one after the other, but skips tensors without a parameter if ignorable. No
     * parameter is changed if a name, type or shape differs.
     */
    void into(Map<String, Parameter> parameters, Predicate<String> ignorable) {
        requireMatching(parameters, ignorable);
        parameters.forEach((name, parameter) -> {
            if (header.entries().containsKey(name)) {
                try (Scope scope = Scope.open("load")) {
                    parameter.set(tensor(name));
                }
            }
        });
    }

    private void requireMatching(Map<String, Parameter> parameters, Predicate<String> ignorable) {
        List<String> differences = new ArrayList<>();
        header.entries().forEach((name, e) -> {
            if (!parameters.containsKey(name) && !ignorable.test(name)) {
                differences.add("contains a tensor \"" + name + "\" that the model does not have, " + e.dtype()
                        + e.shape());
            }
        });
        parameters.forEach((name, parameter) -> {
            SafeTensorsHeader.Entry e = header.entries().get(name);
            Spec expected = parameter.value().spec();
            if (e == null && isLater(name)) {
                return;
            }
            if (e == null || e.dtype() != expected.dtype() || !parameter.accepts(e.shape())) {
                differences.add((e == null ? "has no tensor \"" + name + "\"" : "contains \"" + name + "\" as "
                        + e.dtype() + e.shape()) + ", but the model needs " + expected.dtype() + expected.shape());
            }
        });
        if (!differences.isEmpty()) {
            int more = differences.size() - MAX_DIFFERENCES;
            throw wrong(String.join("; ", differences.subList(0, Math.min(MAX_DIFFERENCES, differences.size())))
                    + (more > 0 ? "; and " + more + " more differences" : ""), "build the same model that was saved",
                    null);
        }
    }

    /** Returns whether older files lack a tensor: the columns of a table encoder, which then stay as they are. */
    private static boolean isLater(String name) {
        return name.matches("(.*\\.)?columns_(text|ends)");
    }

    /** Closes the file. Tensors that were read from it stay open. */
    @Override
    public void close() {
        source.close();
    }
}
