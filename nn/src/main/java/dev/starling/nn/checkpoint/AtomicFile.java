package dev.starling.nn.checkpoint;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/** Writes files that exist completely or not at all, even if the machine fails during the write. */
final class AtomicFile {
    /** Whether this system can open a directory and force its entries to disk. */
    private static final boolean FORCES_DIRECTORIES = !System.getProperty("os.name").startsWith("Windows");
    /**
     * Distinguishes the temporary file of a write from those of other writes of the same file, in this process by the
     * order of the writes, and in other processes by the first number, which is random.
     */
    private static final AtomicInteger NEXT = new AtomicInteger(new SecureRandom().nextInt());

    private AtomicFile() {
    }

    /** The content of a file to be written. */
    @FunctionalInterface
    interface Content {
        /** Writes the whole content to {@code sink}. */
        void writeTo(SafeTensors.Sink sink) throws IOException;
    }

    /**
     * Writes a file through {@link #temporary}: writes it, forces it to disk, renames it and forces the directory to
     * disk.
     */
    static void write(Path path, Content content) {
        Path temporary = temporary(path);
        try {
            Files.createDirectories(path.toAbsolutePath().getParent());
            writeAndDigest(temporary, content);
            moveInto(temporary, path);
        } catch (IOException e) {
            throw failed(path, e, temporary);
        } catch (RuntimeException | Error e) {
            deleteQuietly(temporary);
            throw e;
        }
    }

    /**
     * Returns the path to which a write goes before the file is renamed: {@code PATH.XXXXXXXX.tmp}, another one at each
     * call.
     */
    static Path temporary(Path path) {
        return path.resolveSibling(path.getFileName() + "." + HexFormat.of().toHexDigits(NEXT.getAndIncrement())
                + ".tmp");
    }

    /** Writes a file, forces it to disk and returns its SHA-256. */
    static String writeAndDigest(Path file, Content content) throws IOException {
        Sha256 checksum = new Sha256();
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE,
                StandardOpenOption.TRUNCATE_EXISTING)) {
            content.writeTo(bytes -> {
                checksum.add(bytes);
                while (bytes.hasRemaining()) {
                    channel.write(bytes);
                }
            });
            channel.force(true);
        }
        return checksum.finish();
    }

    /**
     * Renames a complete file and forces the directory to disk where the system can, so that the new name survives a
     * crash.
     *
     * @throws CheckpointException if the file is missing: another process, such as a second run that prunes the same
     *     directory, has deleted it
     */
    static void moveInto(Path temporary, Path path) throws IOException {
        try {
            Files.move(temporary, path, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (NoSuchFileException e) {
            throw new CheckpointException(path, "cannot be written: another process has deleted "
                    + temporary.getFileName() + " before it was renamed", "give each run a directory of its own", e);
        }
        if (FORCES_DIRECTORIES) {
            try (FileChannel directory = FileChannel.open(path.toAbsolutePath().getParent(), StandardOpenOption.READ)) {
                directory.force(true);
            }
        }
    }

    static CheckpointException failed(Path path, IOException cause, Path... leftovers) {
        for (Path leftover : leftovers) {
            deleteQuietly(leftover);
        }
        return new CheckpointException(path, "cannot be written: " + cause, "free some space or choose another "
                + "directory; earlier checkpoints are intact", cause);
    }

    /** Deletes the remains of a failed write. An exception here would hide the failure itself, so it is dropped. */
    static void deleteQuietly(Path file) {
        try {
            Files.deleteIfExists(file);
        } catch (IOException secondary) {
            // The caller reports the original failure.
        }
    }

    /** Closes a resource that was only read. */
    static void closeQuietly(@Nullable AutoCloseable resource) {
        if (resource != null) {
            try {
                resource.close();
            } catch (Exception ignored) {
                // Closing a resource that was only read cannot lose data.
            }
        }
    }
}
