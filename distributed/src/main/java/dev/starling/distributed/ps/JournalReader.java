package dev.starling.distributed.ps;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.zip.CRC32C;

/** Plays a journal back. */
final class JournalReader {
    private static final System.Logger LOG = System.getLogger(JournalReader.class.getName());

    private final CRC32C crc = new CRC32C();
    private ByteBuffer buffer = ByteBuffer.allocate(1 << 20).order(ByteOrder.LITTLE_ENDIAN);

    /** Takes a record, which begins at 0. */
    interface Replay {
        void onRecord(ByteBuffer record) throws IOException;
    }

    /**
     * Hands over the records after a number, up to where the journal ends or is torn.
     *
     * @return the number of the last record, or {@code after} if there is none
     */
    long read(Path directory, long after, Replay replay) throws IOException {
        long last = after;
        List<Path> files = Journal.files(directory);
        for (Path path : files) {
            try (FileChannel file = FileChannel.open(path, StandardOpenOption.READ)) {
                long at = 0;
                while (next(file, at)) {
                    long sequence = buffer.getLong(Journal.SEQUENCE);
                    if (sequence > last + 1) {
                        throw new IOException(path + " goes on with record " + sequence + ", but record " + (last + 1)
                                + " is missing; put the file that holds it back");
                    }
                    if (sequence == last + 1) {
                        replay.onRecord(buffer);
                        last = sequence;
                    }
                    at += buffer.getInt(Journal.LENGTH);
                }
                if (at < file.size()) {
                    LOG.log(Level.WARNING, "{0} is torn after record {1}: {2} bytes, which nobody was told are safe, "
                            + "are cut", path, last, file.size() - at);
                }
            }
        }
        return last;
    }

    /** Reads the record at a place of a file; returns whether there is a whole one. */
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
