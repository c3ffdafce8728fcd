package dev.starling.transport.aeron;

import static io.aeron.driver.status.SystemCounterDescriptor.BYTES_CURRENTLY_MAPPED;

import io.aeron.driver.MediaDriver;
import io.aeron.driver.buffer.FileStoreLogFactory;
import io.aeron.driver.buffer.LogFactory;
import io.aeron.driver.buffer.RawLog;
import io.aeron.exceptions.StorageSpaceException;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.agrona.concurrent.status.AtomicCounter;
import org.jspecify.annotations.Nullable;

/**
 * Creates the files of Aeron's terms and reserves their room by writing zeros to them. Aeron itself checks that there
 * is room and then touches each page in memory. If another process takes the room in between, that ends the driver and
 * with it all links, where a write merely fails. On virtual machines with slow page faults it also takes ten times as
 * long: 20 ms for a link of 6 MiB, for which all other links wait, and which a stranger can cause.
 */
final class ReservedLogs implements LogFactory {
    private static final int CHUNK = 64 << 10;

    private final MediaDriver.Context context;
    private final ByteBuffer zeros = ByteBuffer.allocateDirect(CHUNK);
    /** {@code null} before the driver creates the first log. */
    private @Nullable LogFactory files;

    private ReservedLogs(MediaDriver.Context context) {
        this.context = context;
    }

    /** Lets a driver that is yet to start create its logs here, or leaves that to Aeron if it is a version without. */
    static void use(MediaDriver.Context context) {
        try {
            var setter = MediaDriver.Context.class.getDeclaredMethod("logFactory", LogFactory.class);
            setter.setAccessible(true); // For Aeron's own tests.
            setter.invoke(context, new ReservedLogs(context));
        } catch (ReflectiveOperationException | RuntimeException e) {
            AeronWire.LOG.log(Level.DEBUG, "Aeron reserves the room of links itself: {0}", e.toString());
        }
    }

    @Override
    public RawLog newPublication(long correlationId, int termLength, boolean sparse) {
        return Uninterrupted.call(() -> reserve(files().newPublication(correlationId, termLength, true)));
    }

    @Override
    public RawLog newImage(long correlationId, int termLength, boolean sparse) {
        return Uninterrupted.call(() -> reserve(files().newImage(correlationId, termLength, true)));
    }

    private LogFactory files() {
        LogFactory present = files;
        if (present == null) {
            AtomicCounter mapped = context.systemCounters().get(BYTES_CURRENTLY_MAPPED);
            present = new FileStoreLogFactory(context.aeronDirectoryName(), context.filePageSize(),
                    context.performStorageChecks(), context.lowStorageWarningThreshold(), context.errorHandler(),
                    mapped);
            files = present;
        }
        return present;
    }

    private RawLog reserve(RawLog log) {
        Path path = Path.of(log.fileName());
        try (FileChannel file = FileChannel.open(path, StandardOpenOption.WRITE)) {
            long length = file.size();
            for (long at = 0; at < length; at += zeros.position()) {
                zeros.clear().limit((int) Math.min(CHUNK, length - at));
                if (file.write(zeros, at) <= 0) {
                    throw new IOException("nothing could be written");
                }
            }
            return log;
        } catch (IOException e) {
            log.close();
            throw new StorageSpaceException("no room for " + path.getFileName() + ": " + e.getMessage());
        }
    }

    @Override
    public void close() { }
}
