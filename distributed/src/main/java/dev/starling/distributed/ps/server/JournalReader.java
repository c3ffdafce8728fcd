package dev.starling.distributed.ps.server;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.zip.CRC32C;

/** Replays a journal. */
final class JournalReader {
    private static final System.Logger LOG = System.getLogger(JournalReader.class.getName());
    private static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT.withOrder(ByteOrder.LITTLE_ENDIAN);

    private final CRC32C crc = new CRC32C();
    private ByteBuffer buffer = ByteBuffer.allocate(1 << 20).order(ByteOrder.LITTLE_ENDIAN);

    /** Receives records. */
    interface Replay {
        /** Applies a record, which starts at index 0 of the buffer. */
        void onRecord(ByteBuffer record) throws IOException;
    }

    /**
     * Delivers the records after a number, up to the end of the journal or the first torn record.
     *
     * @throws IOException also if a later record shows that a damaged one had been on the disk: the server had
     *     acknowledged its update
     * @return the number of the last record, or {@code after} if there is none
     */
    long read(Path directory, long after, Replay replay) throws IOException {
        long last = after;
        List<Path> files = Journal.files(directory);
        for (Path path : files) {
            requireNext(path, Journal.first(path), last);
            try (FileChannel file = FileChannel.open(path, StandardOpenOption.READ)) {
                long at = 0;
                while (next(file, at)) {
                    long sequence = buffer.getLong(Journal.SEQUENCE);
                    requireNext(path, sequence, last);
                    if (sequence == last + 1) {
                        replay.onRecord(buffer);
                        last = sequence;
                    }
                    at += buffer.getInt(Journal.LENGTH);
                }
                if (at < file.size()) {
                    requireTorn(path, file, at, last);
                    LOG.log(Level.WARNING, "{0} is torn after record {1}: dropping {2} bytes of updates that the "
                            + "server had not acknowledged", path, last, file.size() - at);
                }
            }
        }
        return last;
    }

    private static void requireNext(Path path, long sequence, long last) throws IOException {
        if (sequence > last + 1) {
            throw new IOException(path + " continues with record " + sequence + ", but record " + (last + 1)
                    + " is missing; put the file that contains it back, the snapshot or a journal");
        }
    }

    /**
     * Throws if a record after a position was written when the one at the position was already on the disk. Records of
     * earlier releases do not show that.
     */
    private void requireTorn(Path path, FileChannel file, long at, long last) throws IOException {
        long left = file.size() - at;
        long most = last + left / Journal.RECORD_HEADER;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment tail = file.map(FileChannel.MapMode.READ_ONLY, at, left, arena);
            for (long later = 8; left - later >= Journal.RECORD_HEADER; later += 8) {
                long sequence = tail.get(LONG, later + Journal.SEQUENCE);
                int unforced = tail.get(INT, later + Journal.UNFORCED);
                // Any bytes may be here: a record is read only if its header is one that can follow the torn record.
                if (unforced > 0 && sequence > last && sequence <= most && sequence - unforced > last
                        && next(file, at + later)) {
                    throw new IOException(path + " is damaged: record " + (last + 1) + " is not intact, but record "
                            + sequence + " after it is; put an intact copy back, or give the server an empty "
                            + "directory and resume from a checkpoint");
                }
            }
        }
    }

    /** Reads the record at a position of a file; returns whether it is complete and intact. */
    private boolean next(FileChannel file, long at) throws IOException {
        long left = file.size() - at;
        if (left < Journal.RECORD_HEADER || !read(file, at, Journal.RECORD_HEADER)) {
            return false;
        }
        int length = buffer.getInt(Journal.LENGTH);
        if (length < Journal.RECORD_HEADER || length % 8 != 0 || length > left) {
            return false;
        }
        if (length > buffer.capacity()) {
            buffer = ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
        }
        if (!read(file, at, length)) {
            return false;
        }
        crc.reset();
        crc.update(buffer.position(Journal.SEQUENCE));
        buffer.position(0);
        return (int) crc.getValue() == buffer.getInt(Journal.CRC);
    }

    /** Returns numbers of a record, from a byte on. */
    static float[] floats(ByteBuffer from, int at, int n) {
        float[] floats = new float[n];
        for (int i = 0; i < n; i++) {
            floats[i] = from.getFloat(at + 4 * i);
        }
        return floats;
    }

    private boolean read(FileChannel file, long at, int length) throws IOException {
        buffer.clear().limit(length);
        while (buffer.hasRemaining()) {
            if (file.read(buffer, at + buffer.position()) < 0) {
                return false;
            }
        }
        buffer.position(0);
        return true;
    }
}
