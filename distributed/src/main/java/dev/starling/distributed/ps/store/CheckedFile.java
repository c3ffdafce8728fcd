package dev.starling.distributed.ps.store;

import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Objects;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/**
 * A binary file that ends with its CRC-32C. The writer writes under a temporary name and renames the file when it is
 * complete and on the disk, so the file exists completely or not at all.
 */
public final class CheckedFile implements Closeable {
    private static final int BUFFER = 1 << 20;
    /** Whether this system can open a directory and force its entries to disk. */
    private static final boolean FORCES_DIRECTORIES = !System.getProperty("os.name").startsWith("Windows");

    private final Path path;
    /** {@code null} while reading. */
    private final @Nullable Path temporary;
    private final FileChannel file;
    private final CRC32C crc = new CRC32C();
    /** While reading, how many bytes of the buffer the checksum contains. */
    private int summed;
    private final ByteBuffer buffer = ByteBuffer.allocateDirect(BUFFER).order(ByteOrder.LITTLE_ENDIAN);

    private CheckedFile(Path path, @Nullable Path temporary, FileChannel file) {
        this.path = path;
        this.temporary = temporary;
        this.file = file;
    }

    /** Forces the entries of a directory to the disk where the system can. */
    public static void forceDirectory(Path directory) throws IOException {
        if (FORCES_DIRECTORIES) {
            try (FileChannel channel = FileChannel.open(directory, StandardOpenOption.READ)) {
                channel.force(true);
            }
        }
    }

    // ---- writing ----

    /** Returns the temporary name of a file that is being written. */
    public static Path draft(Path path) {
        return path.resolveSibling(path.getFileName() + ".tmp");
    }

    public static CheckedFile write(Path path) throws IOException {
        Path temporary = draft(path);
        return new CheckedFile(path, temporary, FileChannel.open(temporary, StandardOpenOption.CREATE,
                StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING));
    }

    private void reserve(int bytes) throws IOException {
        if (buffer.remaining() < bytes) {
            drain();
        }
    }

    private void drain() throws IOException {
        crc.update(buffer.flip());
        buffer.rewind();
        while (buffer.hasRemaining()) {
            file.write(buffer);
        }
        buffer.clear();
    }

    public void putInt(int value) throws IOException {
        reserve(4);
        buffer.putInt(value);
    }

    public void putLong(long value) throws IOException {
        reserve(8);
        buffer.putLong(value);
    }

    public void put(byte[] bytes) throws IOException {
        putInt(bytes.length);
        for (byte b : bytes) {
            reserve(1);
            buffer.put(b);
        }
    }

    public void put(long[] values) throws IOException {
        for (long value : values) {
            putLong(value);
        }
    }

    public void put(float[] values) throws IOException {
        for (float value : values) {
            reserve(4);
            buffer.putFloat(value);
        }
    }

    /** Writes the first {@code n} bytes, at most a mebibyte, without a length prefix. */
    void putAll(byte[] bytes, int n) throws IOException {
        reserve(n);
        buffer.put(bytes, 0, n);
    }

    /** Forces the file to the disk and renames it; returns its checksum. */
    public int commit() throws IOException {
        drain();
        int checksum = (int) crc.getValue();
        buffer.putInt(checksum).flip();
        while (buffer.hasRemaining()) {
            file.write(buffer);
        }
        file.force(true);
        file.close();
        Files.move(Objects.requireNonNull(temporary), path, StandardCopyOption.ATOMIC_MOVE,
                StandardCopyOption.REPLACE_EXISTING);
        forceDirectory(Objects.requireNonNull(path.toAbsolutePath().getParent()));
        return checksum;
    }

    // ---- reading ----

    /** Opens a file for reading. The contents are valid only if {@link #verify} succeeds after the last read. */
    public static CheckedFile read(Path path) throws IOException {
        CheckedFile opened = new CheckedFile(path, null, FileChannel.open(path, StandardOpenOption.READ));
        opened.buffer.flip();
        return opened;
    }

    private void require(int bytes) throws IOException {
        if (buffer.remaining() >= bytes) {
            return;
        }
        updateChecksum();
        buffer.compact();
        summed = 0;
        while (buffer.position() < bytes) {
            if (file.read(buffer) < 0) {
                throw new EOFException(path + " is truncated; put an intact copy back");
            }
        }
        buffer.flip();
    }

    /** Adds the bytes that were read to the checksum. */
    private void updateChecksum() {
        crc.update(buffer.slice(summed, buffer.position() - summed));
        summed = buffer.position();
    }

    public int getInt() throws IOException {
        require(4);
        return buffer.getInt();
    }

    public long getLong() throws IOException {
        require(8);
        return buffer.getLong();
    }

    public byte[] getBytes() throws IOException {
        int n = getInt();
        if (n < 0 || n > file.size()) {
            throw new IOException(path + " has the invalid length " + n + "; put an intact copy back");
        }
        byte[] bytes = new byte[n];
        for (int i = 0; i < n; i++) {
            require(1);
            bytes[i] = buffer.get();
        }
        return bytes;
    }

    /** Reads bytes without a length prefix, at most a mebibyte. */
    void getAll(byte[] into) throws IOException {
        require(into.length);
        buffer.get(into);
    }

    public void get(long[] into) throws IOException {
        for (int i = 0; i < into.length; i++) {
            into[i] = getLong();
        }
    }

    public void get(float[] into) throws IOException {
        for (int i = 0; i < into.length; i++) {
            into[i] = Float.intBitsToFloat(getInt());
        }
    }

    /** Verifies the checksum after everything was read, and returns it. */
    public int verify() throws IOException {
        require(4);
        updateChecksum();
        if (buffer.getInt() != (int) crc.getValue()) {
            throw new IOException(path + " does not match its checksum; put an intact copy back");
        }
        return (int) crc.getValue();
    }

    @Override
    public void close() throws IOException {
        file.close();
        if (temporary != null) {
            Files.deleteIfExists(temporary);
        }
    }
}
