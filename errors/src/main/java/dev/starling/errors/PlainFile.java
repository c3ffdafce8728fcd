package dev.starling.errors;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The rules for files that are read and replaced as a whole. A pipe would block its reader without limit; a rename onto
 * a device would remove the device, and onto a symbolic link, the link.
 */
public final class PlainFile {
    /** What a message calls that which {@link #isOther}. */
    public static final String OTHER = "a directory, a pipe or a device";
    /** The advice for a reader that finds it. */
    public static final String REMEDY = "name a file; write what a pipe contains to one first";
    /**
     * Distinguishes the draft of a write from those of other writes of the same file, in this process by the order of
     * the writes, and in other processes by the first number, which is random.
     */
    private static final AtomicInteger NEXT = new AtomicInteger(new SecureRandom().nextInt());

    private PlainFile() {
    }

    /** Returns whether there is something at a path, or where a link at this path leads, that is no regular file. */
    public static boolean isOther(Path path) {
        return Files.exists(path) && !Files.isRegularFile(path);
    }

    /**
     * Returns the file that a new one is to replace: where the links at a path lead, or the path itself if no file is
     * there.
     *
     * @throws FileSystemException if it {@link #isOther}
     */
    public static Path target(Path path) throws IOException {
        if (isOther(path)) {
            throw new FileSystemException(path.toString(), null, "it is " + OTHER + "; name a file");
        }
        return Files.exists(path) ? path.toRealPath() : path.toAbsolutePath();
    }

    /**
     * Returns the path to which a write goes before the file is renamed: {@code PATH.XXXXXXXX.tmp}, another one at each
     * call. A temporary file of the JDK would stay readable for its owner only.
     */
    public static Path draft(Path path) {
        return path.resolveSibling(path.getFileName() + "." + HexFormat.of().toHexDigits(NEXT.getAndIncrement())
                + ".tmp");
    }

    /** Renames a complete draft, in place of a file of that name. */
    public static void rename(Path draft, Path target) throws IOException {
        Files.move(draft, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }
}
