package dev.starling.distributed.ps.server;

import dev.starling.distributed.ps.config.ServerException;
import java.io.Closeable;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/** The right of one server to a directory, which ends with its process. */
final class DirectoryLock implements Closeable {
    /**
     * The directories of this process's servers. A second server must not even open the lock file of the first: its end
     * of that file would end the lock, and a server of another process could then write to the same journal.
     */
    private static final Set<Path> HELD = ConcurrentHashMap.newKeySet();

    private final Path directory;
    private final FileChannel channel;

    private DirectoryLock(Path directory, FileChannel channel) {
        this.directory = directory;
        this.channel = channel;
    }

    /**
     * Takes the right to an existing directory.
     *
     * @throws ServerException if another server has it
     */
    static DirectoryLock take(Path directory) throws IOException {
        Path real = directory.toRealPath();
        if (!HELD.add(real)) {
            throw inUse(directory);
        }
        FileChannel channel = null;
        try {
            channel = FileChannel.open(real.resolve("lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            if (channel.tryLock() == null) {
                throw inUse(directory);
            }
            return new DirectoryLock(real, channel);
        } catch (OverlappingFileLockException byAnotherClassLoader) {
            end(real, channel);
            throw inUse(directory);
        } catch (IOException | RuntimeException e) {
            end(real, channel);
            throw e;
        }
    }

    private static ServerException inUse(Path directory) {
        return new ServerException("another server uses " + directory + "; give each server its own directory", null);
    }

    private static void end(Path real, @Nullable FileChannel channel) throws IOException {
        try {
            if (channel != null) {
                channel.close();
            }
        } finally {
            HELD.remove(real);
        }
    }

    @Override
    public void close() throws IOException {
        end(directory, channel);
    }
}
