package dev.starling.cuda.compile;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/**
 * Compiled programs in a folder, one file each, with a checksum at its end. A file with a wrong checksum, or a folder
 * that cannot be used, costs only a compilation. Several processes may share a folder: a rename makes each file visible
 * when it is complete.
 */
final class ProgramCache {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");

    private final Path folder;
    private volatile boolean warned;

    ProgramCache(Path folder) {
        this.folder = folder;
    }

    /** Returns the default folder: {@code starling/kernels} in {@code XDG_CACHE_HOME} or {@code ~/.cache}. */
    static Path home() {
        String cache = System.getenv("XDG_CACHE_HOME");
        Path base = cache == null || cache.isEmpty() ? Path.of(System.getProperty("user.home"), ".cache")
                : Path.of(cache);
        return base.resolve("starling").resolve("kernels");
    }

    /** Returns the program of a key, or {@code null}. */
    byte @Nullable [] find(String key) {
        try {
            Path file = folder.resolve(key);
            if (!Files.isRegularFile(file)) {
                return null;
            }
            byte[] bytes = Files.readAllBytes(file);
            int n = bytes.length - Long.BYTES;
            if (n <= 0 || ByteBuffer.wrap(bytes).getLong(n) != checksum(bytes, n)) {
                return null;
            }
            return Arrays.copyOf(bytes, n);
        } catch (IOException e) {
            warn(e);
            return null;
        }
    }

    /** Stores a program. */
    void keep(String key, byte[] program) {
        try {
            Files.createDirectories(folder);
            Path part = Files.createTempFile(folder, key.substring(0, 16), ".part");
            ByteBuffer bytes = ByteBuffer.allocate(program.length + Long.BYTES);
            bytes.put(program).putLong(checksum(program, program.length));
            try {
                Files.write(part, bytes.array());
                Files.move(part, folder.resolve(key), StandardCopyOption.ATOMIC_MOVE);
            } finally {
                Files.deleteIfExists(part);
            }
        } catch (IOException e) {
            warn(e);
        }
    }

    private void warn(IOException e) {
        if (!warned) {
            warned = true;
            LOG.log(System.Logger.Level.WARNING, "cannot cache compiled kernels in " + folder
                    + ", they are compiled again in each process: " + e);
        }
    }

    private static long checksum(byte[] bytes, int length) {
        CRC32C sum = new CRC32C();
        sum.update(bytes, 0, length);
        return sum.getValue();
    }
}
