package dev.starling.nn.checkpoint;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.util.HexFormat;

/** Writes files that are there as a whole or not at all, even if the machine stops in between. */
final class AtomicFile {
    /** Tells this process's drafts from those of another that writes the same file. */
    private static final String OWN = "%08x".formatted(new SecureRandom().nextInt());

    private AtomicFile() {
    }

    /** Writes what a file is to hold. */
    @FunctionalInterface
    interface Content {
        /** Writes everything to {@code sink}. */
        void writeTo(SafeTensors.Sink sink) throws IOException;
    }

    /** Writes a file by way of {@link #temporary}: written, forced to the disk, renamed, directory forced. */
    static void write(Path path, Content content) {
        Path temporary = temporary(path);
        try {
            Files.createDirectories(path.toAbsolutePath().getParent());
            digested(temporary, content);
            moveInto(temporary, path);
        } catch (IOException e) {
            throw failed(path, e, temporary);
        } catch (RuntimeException | Error e) {
            deleteQuietly(temporary);
            throw e;
        }
    }

    /** Returns where this process drafts a file: {@code PATH.XXXXXXXX.tmp}. */
    static Path temporary(Path path) {
        return path.resolveSibling(path.getFileName() + "." + OWN + ".tmp");
    }

    /** Writes a file, forces it to the disk and returns its SHA-256. */
    static String digested(Path file, Content content) throws IOException {
        MessageDigest digest = sha256();
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE,
                StandardOpenOption.TRUNCATE_EXISTING)) {
            content.writeTo(bytes -> {
                digest.update(bytes.duplicate());
                while (bytes.hasRemaining()) {
                    channel.write(bytes);
                }
            });
            channel.force(true);
        }
        return HexFormat.of().formatHex(digest.digest());
    }

    /** Gives a complete file its name, and makes sure that the name lasts. */
    static void moveInto(Path temporary, Path path) throws IOException {
        Files.move(temporary, path, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        try (FileChannel directory = FileChannel.open(path.toAbsolutePath().getParent(), StandardOpenOption.READ)) {
            directory.force(true);
        }
    }

    static CheckpointException failed(Path path, IOException cause, Path... leftovers) {
        for (Path leftover : leftovers) {
            deleteQuietly(leftover);
        }
        return new CheckpointException(path, "cannot be written: " + cause, "free some space or choose another "
                + "directory; what was saved before is intact", cause);
    }

    static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new AssertionError("every Java platform has SHA-256", e);
        }
    }

    /** Deletes what a failure left behind; that this fails too would hide the reason. */
    static void deleteQuietly(Path file) {
        try {
            Files.deleteIfExists(file);
        } catch (IOException secondary) {
            // the failure that led here is the one to report
        }
    }

    /** Closes what was only read. */
    static void closeQuietly(AutoCloseable resource) {
        if (resource != null) {
            try {
                resource.close();
            } catch (Exception ignored) {
                // nothing that was read can be lost
            }
        }
    }
}
