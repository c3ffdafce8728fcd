package dev.starling.nn.checkpoint;

import dev.starling.errors.PlainFile;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** Writes files that exist completely or not at all, even if the machine fails during the write. */
final class AtomicFile {
    /** Whether this system can open a directory and force its entries to disk. */
    private static final boolean FORCES_DIRECTORIES = !System.getProperty("os.name").startsWith("Windows");
    private static final Pattern NO_SPACE = Pattern.compile("space|quota");

    private AtomicFile() {
    }

    /** The content of a file to be written. */
    @FunctionalInterface
    interface Content {
        /** Writes the whole content to {@code sink}. */
        void writeTo(SafeTensors.Sink sink) throws IOException;
    }

    /**
     * Writes a file through {@link PlainFile#draft}: writes it, forces it to disk, renames it and forces the directory
     * to disk. Of a symbolic link, the target is replaced.
     */
    static void write(Path path, Content content) {
        if (PlainFile.isOther(path)) {
            throw new CheckpointException(path, "is " + PlainFile.OTHER, "name a file", null);
        }
        Path draft = null;
        try {
            Path target = PlainFile.target(path);
            draft = PlainFile.draft(target);
            Files.createDirectories(target.getParent());
            writeAndDigest(draft, content);
            moveInto(draft, target);
        } catch (IOException e) {
            throw failed(path, draft, e);
        } catch (RuntimeException | Error e) {
            deleteQuietly(draft);
            throw e;
        }
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
     */
    static void moveInto(Path draft, Path path) throws IOException {
        PlainFile.rename(draft, path);
        if (FORCES_DIRECTORIES) {
            try (FileChannel directory = FileChannel.open(path.toAbsolutePath().getParent(), StandardOpenOption.READ)) {
                directory.force(true);
            } catch (AccessDeniedException e) {
                // A directory whose files may be written but not listed cannot be opened.
            }
        }
    }

    /** Deletes the draft of a failed write and returns what to throw. */
    static CheckpointException failed(Path path, @Nullable Path draft, IOException cause) {
        deleteQuietly(draft);
        if (cause instanceof NoSuchFileException gone && draft != null && draft.toString().equals(gone.getFile())) {
            // For example a second run that prunes the same directory.
            return new CheckpointException(path, "cannot be written: another process has deleted "
                    + draft.getFileName() + " before it was renamed", "give each run a directory of its own", cause);
        }
        boolean refused = cause instanceof FileSystemException reported
                && !NO_SPACE.matcher(String.valueOf(reported.getReason())).find();
        return new CheckpointException(path, "cannot be written: " + cause, (refused
                ? "check the name and the permissions of its directory" : "free some space or choose another directory")
                + "; earlier checkpoints are intact", cause);
    }

    /** Deletes the remains of a failed write. An exception here would hide the failure itself, so it is dropped. */
    static void deleteQuietly(@Nullable Path file) {
        try {
            if (file != null) {
                Files.deleteIfExists(file);
            }
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
