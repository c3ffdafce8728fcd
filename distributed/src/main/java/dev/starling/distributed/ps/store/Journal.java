package dev.starling.distributed.ps.store;

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
import java.util.stream.Stream;
import java.util.zip.CRC32C;

/**
 * The changes since the last snapshot, one record each, in a file named by the number of its first record. A record
 * starts with its length, the CRC-32C of the bytes after that field, and its number. The journal ends at the first
 * record whose length or checksum is wrong.
 */
public final class Journal implements AutoCloseable {
    /** Only clocks change. */
    public static final int CLOCKS = 0;
    /** A step along a gradient. */
    public static final int GRADIENT = 1;
    /** The initial weights. */
    public static final int WEIGHTS = 2;
    /** A step without a gradient. */
    public static final int NO_GRADIENT = 3;
    /** Rows as they are after a step. */
    public static final int ROWS = 4;
    /** Initial state of the rule; {@link #STRIDE} holds its slot, {@link #RATE} the number of steps taken. */
    public static final int KEPT = 5;
    /** Tables have their initial rows: none, or those of a checkpoint. */
    public static final int ROWS_READY = 6;

    static final int LENGTH = 0;
    static final int CRC = 4;
    public static final int SEQUENCE = 8;
    public static final int KIND = 16;
    public static final int UNIT = 20;
    public static final int RATE = 24;
    public static final int COUNT = 32;
    public static final int STRIDE = 36;
    public static final int MOVED_COUNT = 40;
    public static final int RECORD_HEADER = 48;
    /** Bytes for each changed worker clock: worker, state, session, count, clock. */
    public static final int MOVED = 32;

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

    public Journal(Path directory, long first) throws IOException {
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
        Path path = directory.resolve("%s%019d".formatted(PREFIX, first));
        List<Path> old = files(directory);
        file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE,
                StandardOpenOption.TRUNCATE_EXISTING);
        for (Path each : old) {
            if (!each.equals(path)) {
                Files.delete(each);
            }
        }
        CheckedFile.forceDirectory(directory);
    }

    /** Returns the journal files of a directory, oldest first. */
    public static List<Path> files(Path directory) throws IOException {
        try (Stream<Path> all = Files.list(directory)) {
            return all.filter(p -> p.getFileName().toString().startsWith(PREFIX)).sorted().toList();
        }
    }

    /** Continues in a new file; a snapshot contains all earlier records. */
    public void rotate(long first) throws IOException {
        force();
        file.close();
        begin(first);
    }

    /** Appends a record; it is durable when {@link #force} has returned. */
    public void append(JournalEntry e) throws IOException {
        int length = e.recordLength();
        if (at + length > buffer.capacity()) {
            write();
            if (length > buffer.capacity()) {
                allocate(Math.max(2 * buffer.capacity(), length));
            }
        }
        int start = at;
        buffer.putLong(start + length - 8, 0);
        buffer.putInt(start + LENGTH, length).putLong(start + SEQUENCE, e.record()).putInt(start + KIND, e.recordKind())
                .putInt(start + UNIT, e.unit()).putDouble(start + RATE, e.rate()).putInt(start + COUNT, e.recorded())
                .putInt(start + STRIDE, e.stride()).putLong(start + MOVED_COUNT, e.movedCount());
        at += RECORD_HEADER;
        for (int i = 0; i < e.movedCount(); i++, at += MOVED) {
            buffer.putInt(at, e.moved()[i]).putInt(at + 4, e.movedStates()[i]).putLong(at + 8, e.movedSessions()[i])
                    .putLong(at + 16, e.movedCounts()[i]).putLong(at + 24, e.movedClocks()[i]);
        }
        switch (e.recordKind()) {
            case GRADIENT, WEIGHTS, KEPT -> floats.put(at / 4, e.gradient(), 0, e.recorded());
            case ROWS -> {
                longs.put(at / 8, e.keys(), 0, e.recorded());
                floats.put(at / 4 + 2 * e.recorded(), e.rows(), 0, e.recorded() * e.stride());
            }
            default -> { }
        }
        at = start + length;
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
    public void force() throws IOException {
        write();
        if (dirty) {
            file.force(false);
            dirty = false;
        }
    }

    @Override
    public void close() throws IOException {
        try (FileChannel last = file) {
            force();
        }
    }
}
