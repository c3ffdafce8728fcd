package dev.starling.spark;

import dev.starling.nn.data.Dataset;
import dev.starling.nn.data.Example;
import dev.starling.nn.data.Field;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;

/**
 * Examples of fixed size in off-heap memory; beyond a limit in a temporary file that is mapped. The file has no name
 * while it is used, so that it disappears with the process, however that ends. Filled by one thread, then read by any
 * number.
 */
final class RowCache implements Dataset, AutoCloseable {
    private static final long CHUNK = 16L << 20;

    private final List<Field> fields;
    private final long rowBytes;
    private final int chunkRows;
    private final long memoryBytes;
    private final Path directory;
    private final Arena arena = Arena.ofShared();
    private final List<MemorySegment> chunks = new ArrayList<>();
    /** {@code null} while all rows are in memory. */
    private FileChannel file;
    private long spilled;
    private int size;

    /**
     * Makes an empty cache.
     *
     * @param memoryBytes from where on rows go to a file
     * @param directory of that file
     */
    RowCache(List<Field> fields, long memoryBytes, Path directory) {
        this.fields = fields;
        this.memoryBytes = memoryBytes;
        this.directory = directory;
        rowBytes = fields.stream().mapToLong(Field::bytes).sum();
        chunkRows = (int) Math.max(1, CHUNK / rowBytes);
    }

    /** Returns the chunk in which the next row has its place. */
    MemorySegment chunk() {
        if (size == Integer.MAX_VALUE) {
            throw new SparkDataException("a partition has more than " + Integer.MAX_VALUE + " rows; repartition");
        }
        int number = size / chunkRows;
        if (number == chunks.size()) {
            long bytes = chunkRows * rowBytes;
            chunks.add((number + 1) * bytes <= memoryBytes ? arena.allocate(bytes, 64) : map(bytes));
        }
        return chunks.get(number);
    }

    /** Returns where in {@link #chunk} the next row has its place. */
    long offset() {
        return size % chunkRows * rowBytes;
    }

    /** Counts the row that was written there. */
    void added() {
        size++;
    }

    private MemorySegment map(long bytes) {
        try {
            if (file == null) {
                Path path = Files.createTempFile(directory, "starling-rows-", ".tmp");
                file = FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE);
                Files.delete(path);
            }
            // A disk that is full shall be an exception here, not a fault at a later write to mapped memory.
            ByteBuffer zeros = ByteBuffer.allocate((int) Math.min(bytes, 1 << 20));
            for (long at = 0; at < bytes; at += zeros.capacity()) {
                zeros.clear().limit((int) Math.min(zeros.capacity(), bytes - at));
                file.write(zeros, spilled + at);
            }
            MemorySegment mapped = file.map(FileChannel.MapMode.READ_WRITE, spilled, bytes, arena);
            spilled += bytes;
            return mapped;
        } catch (IOException e) {
            throw new UncheckedIOException("rows beyond " + memoryBytes + " bytes cannot be written to a file in "
                    + directory + ": " + e.getMessage(), e);
        }
    }

    /** Returns how many bytes lie in the file. */
    long spilledBytes() {
        return spilled;
    }

    @Override
    public int size() {
        return size;
    }

    @Override
    public List<Field> fields() {
        return fields;
    }

    @Override
    public void write(int index, Example target) {
        MemorySegment chunk = chunks.get(index / chunkRows);
        long at = index % chunkRows * rowBytes;
        for (int i = 0; i < fields.size(); i++) {
            long bytes = fields.get(i).bytes();
            MemorySegment.copy(chunk, at, target.segment(i), target.offset(i), bytes);
            at += bytes;
        }
    }

    @Override
    public void close() {
        arena.close();
        if (file != null) {
            try {
                file.close();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}
