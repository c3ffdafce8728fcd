package dev.starling.nn.data;

import dev.starling.tensor.TensorException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A data set of rows that arrive one after the other, of any number: in off-heap memory up to a limit, beyond it in a
 * temporary file that is mapped. The file has no name while it is used, so that it disappears with the process, however
 * that ends. One thread adds rows; when it has finished, any number of threads may read. Closing frees memory and file;
 * no loader may read then.
 *
 * <pre>{@code
 * try (SpillingRows rows = SpillingRows.of(fields, 1L << 30, directory)) {
 *     rows.addAll(iterator, (row, memory, at) -> {
 *         memory.set(ValueLayout.JAVA_FLOAT_UNALIGNED, at, row.temperature());
 *         memory.set(ValueLayout.JAVA_LONG_UNALIGNED, at + 4, row.label());
 *     });
 *     DataLoader loader = DataLoader.of(rows).batchSize(64).shuffle().build();
 *     ...
 * }
 * }</pre>
 */
public final class SpillingRows implements Dataset, AutoCloseable {
    private static final long CHUNK_BYTES = 16L << 20;
    private static final int ZEROS = 1 << 20;

    private final List<Field> fields;
    private final long rowBytes;
    private final int chunkRows;
    private final long memoryBytes;
    private final Path directory;
    private final Arena arena = Arena.ofShared();
    private final List<MemorySegment> chunks = new ArrayList<>();
    /** {@code null} while all rows are in memory; replaced if an interrupt has closed it. */
    private @Nullable FileChannel file;
    private long fileBytes;
    private long spilledBytes;
    private int size;

    /**
     * Writes one row into memory.
     *
     * @param <T> type of a row
     * @param <E> what it throws
     */
    @FunctionalInterface
    public interface Writer<T, E extends Exception> {
        /**
         * Writes all fields one after the other without gaps, in the machine's byte order.
         *
         * @param row to write
         * @param memory receives the row
         * @param offset where the row begins, in bytes; it need not be aligned
         * @throws E if the row cannot be read; the data set stays without it
         */
        void write(T row, MemorySegment memory, long offset) throws E;
    }

    private SpillingRows(List<Field> fields, long memoryBytes, Path directory) {
        this.fields = List.copyOf(fields);
        this.memoryBytes = memoryBytes;
        this.directory = directory;
        rowBytes = fields.stream().mapToLong(Field::bytes).sum();
        chunkRows = (int) Math.max(1, CHUNK_BYTES / Math.max(1, rowBytes));
    }

    /**
     * Makes an empty data set.
     *
     * @param fields of a row: the model's input first, the target last
     * @param memoryBytes of rows in off-heap memory; rows beyond go to the file. Memory grows by 16 MiB, or by a row
     *     where that is larger
     * @param directory of the file, which is created when the first row goes there
     */
    public static SpillingRows of(List<Field> fields, long memoryBytes, Path directory) {
        return new SpillingRows(fields, memoryBytes, directory);
    }

    /**
     * Adds a row. If the writer fails, the data set stays as it was.
     *
     * @throws E what the writer throws
     * @throws UncheckedIOException if the file cannot be written: the disk may be full, or the thread was interrupted
     * @throws IllegalStateException if there are 2³¹ - 1 rows already
     */
    public <T, E extends Exception> void add(T row, Writer<? super T, E> writer) throws E {
        if (size == Integer.MAX_VALUE) {
            throw new IllegalStateException("a data set holds at most " + Integer.MAX_VALUE + " rows; divide it");
        }
        int chunk = size / chunkRows;
        if (chunk == chunks.size()) {
            long bytes = chunkRows * rowBytes;
            chunks.add((chunk + 1) * bytes <= memoryBytes ? arena.allocate(bytes, 64) : map(bytes));
        }
        writer.write(row, chunks.get(chunk), size % chunkRows * rowBytes);
        size++;
    }

    /** Adds all rows of an iterator, as {@link #add} does; those before a row that fails stay. */
    public <T, E extends Exception> void addAll(Iterator<? extends T> rows, Writer<? super T, E> writer) throws E {
        while (rows.hasNext()) {
            add(rows.next(), writer);
        }
    }

    private MemorySegment map(long bytes) {
        try {
            if (file == null || !file.isOpen()) {
                Path path = Files.createTempFile(directory, "starling-rows-", ".tmp");
                file = FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE);
                Files.delete(path);
                fileBytes = 0;
            }
            // A full disk must be an exception here, not a fault of the JVM at a later write to mapped memory.
            ByteBuffer zeros = ByteBuffer.allocate((int) Math.min(bytes, ZEROS));
            for (long at = 0; at < bytes;) {
                zeros.clear().limit((int) Math.min(zeros.capacity(), bytes - at));
                at += file.write(zeros, fileBytes + at);
            }
            MemorySegment mapped = file.map(FileChannel.MapMode.READ_WRITE, fileBytes, bytes, arena);
            fileBytes += bytes;
            spilledBytes += bytes;
            return mapped;
        } catch (ClosedByInterruptException e) {
            throw new UncheckedIOException("the thread was interrupted while it added a row: add the row again on one "
                    + "that is not; all rows before it are kept", e);
        } catch (IOException e) {
            throw new UncheckedIOException("rows beyond " + memoryBytes + " bytes cannot be written to a file in "
                    + directory + ": " + e, e);
        }
    }

    /** Returns the size of the file in bytes; 0 while all rows are in memory. */
    public long spilledBytes() {
        return spilledBytes;
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
        if (index < 0 || index >= size) {
            throw TensorException.argument("spilling rows", "there is no row " + index + " of " + size,
                    "use 0 to size() - 1");
        }
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
        if (!arena.scope().isAlive()) {
            return;
        }
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
