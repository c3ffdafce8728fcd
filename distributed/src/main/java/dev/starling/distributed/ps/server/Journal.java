package dev.starling.distributed.ps.server;

import dev.starling.distributed.ps.store.CheckedFile;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.LongBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import java.util.zip.CRC32C;

/**
 * The changes since the last snapshot, one record each, in a file named by the number of its first record. A record
 * starts with its length, the CRC-32C of the bytes after that field, and its number. The journal ends at the first
 * record whose length or checksum is wrong, unless a later record shows that this one had been on the disk.
 */
final class Journal implements AutoCloseable {
    /** Only clocks change. */
    static final int CLOCKS = 0;
    /** A step along a gradient. */
    static final int GRADIENT = 1;
    /** The initial weights. */
    static final int WEIGHTS = 2;
    /** A step without a gradient. */
    static final int NO_GRADIENT = 3;
    /** Rows as they are after a step. */
    static final int ROWS = 4;
    /** Initial state of the rule; {@link #STRIDE} holds its slot, {@link #RATE} the number of steps taken. */
    static final int KEPT = 5;
    /** Tables have their initial rows: none, or those of a checkpoint. */
    static final int ROWS_READY = 6;

    static final int LENGTH = 0;
    static final int CRC = 4;
    static final int SEQUENCE = 8;
    static final int KIND = 16;
    static final int UNIT = 20;
    /** Learning rate of a step; of {@link #ROWS} the number of the table's rows after it. */
    static final int RATE = 24;
    static final int COUNT = 32;
    static final int STRIDE = 36;
    /** Number of workers whose clocks changed; they follow the header, as {@link Clocks#write} has written them. */
    static final int MOVED_COUNT = 40;
    /**
     * Number of this record minus that of the last record on the disk when this one was written; 0 in journals of
     * earlier releases, which did not store it.
     */
    static final int UNFORCED = 44;
    static final int RECORD_HEADER = 48;

    private static final String PREFIX = "journal-";
    private static final int BUFFER = 1 << 20;

    private final Path directory;
    private final CRC32C crc = new CRC32C();
    private FileChannel file;
    private ByteBuffer buffer;
    private FloatBuffer floats;
    private LongBuffer longs;
    private int at;
    private boolean dirty;
    private long appended;
    /** Number of the last record on the disk. */
    private long forced;

    Journal(Path directory, long first) throws IOException {
        this.directory = directory;
        allocate(BUFFER);
        begin(first);
    }

    private void allocate(int bytes) {
        buffer = ByteBuffer.allocateDirect(bytes).order(ByteOrder.LITTLE_ENDIAN);
        floats = buffer.asFloatBuffer();
        longs = buffer.asLongBuffer();
    }

    /** Starts a new file and deletes the previous ones, whose records are in a snapshot. */
    private void begin(long first) throws IOException {
        Path path = directory.resolve(String.format(Locale.ROOT, "%s%019d", PREFIX, first));
        List<Path> old = files(directory);
        file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE,
                StandardOpenOption.TRUNCATE_EXISTING);
        forced = first - 1;
        for (Path each : old) {
            if (!each.equals(path)) {
                Files.delete(each);
            }
        }
        CheckedFile.forceDirectory(directory);
    }

    /** Returns the journal files of a directory, oldest first. */
    static List<Path> files(Path directory) throws IOException {
        try (Stream<Path> all = Files.list(directory)) {
            return all.filter(p -> p.getFileName().toString().matches(PREFIX + "\\d{19}")).sorted().toList();
        }
    }

    /** Returns the number in a journal file's name: that of its first record. */
    static long first(Path file) {
        return Long.parseLong(file.getFileName().toString().substring(PREFIX.length()));
    }

    /** Continues in a new file; a snapshot contains all earlier records. */
    void rotate(long first) throws IOException {
        force();
        file.close();
        begin(first);
    }

    /** Returns the length of a request's record in bytes, a multiple of 8. */
    static int length(Request e) {
        int payload = switch (e.recordKind) {
            case GRADIENT, WEIGHTS, KEPT -> 4 * e.recorded;
            case ROWS -> e.recorded * (8 + 4 * e.stride);
            default -> 0;
        };
        return (RECORD_HEADER + e.moved.position() + payload + 7) / 8 * 8;
    }

    /** Appends a request's record; it is durable when {@link #force} has returned. */
    void append(Request e) throws IOException {
        int length = length(e);
        if (length > buffer.capacity() - at) {
            write();
            if (length > buffer.capacity()) {
                allocate(Math.max(2 * buffer.capacity(), length));
            }
        }
        int start = at;
        buffer.putLong(start + length - 8, 0);
        boolean kept = e.recordKind == KEPT;
        double rate = kept ? e.steps : e.recordKind == ROWS ? e.tableRows : e.rate;
        buffer.putInt(start + LENGTH, length).putLong(start + SEQUENCE, e.record).putInt(start + KIND, e.recordKind)
                .putInt(start + UNIT, e.unit).putDouble(start + RATE, rate)
                .putInt(start + COUNT, e.recorded).putInt(start + STRIDE, kept ? e.slot : e.stride)
                .putInt(start + MOVED_COUNT, e.moved.position() / Clocks.BYTES)
                .putInt(start + UNFORCED, (int) (e.record - forced))
                .put(start + RECORD_HEADER, e.moved, 0, e.moved.position());
        at += RECORD_HEADER + e.moved.position();
        switch (e.recordKind) {
            case GRADIENT -> floats.put(at / 4, e.stepped, 0, e.recorded);
            case WEIGHTS, KEPT -> floats.put(at / 4, e.gradient, 0, e.recorded);
            case ROWS -> {
                longs.put(at / 8, e.keys, 0, e.recorded);
                floats.put(at / 4 + 2 * e.recorded, e.rows, 0, e.recorded * e.stride);
            }
            default -> { }
        }
        at = start + length;
        appended = e.record;
        crc.reset();
        crc.update(buffer.limit(at).position(start + SEQUENCE));
        buffer.clear();
        buffer.putInt(start + CRC, (int) crc.getValue());
    }

    private void write() throws IOException {
        buffer.limit(at).position(0);
        while (buffer.hasRemaining()) {
            file.write(buffer);
        }
        buffer.clear();
        dirty |= at > 0;
        at = 0;
    }

    /** Writes all appended records to the disk. */
    void force() throws IOException {
        write();
        if (dirty) {
            file.force(false);
            dirty = false;
            forced = appended;
        }
    }

    @Override
    public void close() throws IOException {
        try (FileChannel last = file) {
            force();
        }
    }
}
