package dev.starling.transport.aeron;

import dev.starling.transport.spi.Backoff;
import io.aeron.CncFileDescriptor;
import java.io.File;
import java.nio.MappedByteBuffer;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.agrona.BufferUtil;
import org.agrona.IoUtil;
import org.agrona.concurrent.EpochClock;
import org.agrona.concurrent.SystemEpochClock;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.ringbuffer.ManyToOneRingBuffer;
import org.jspecify.annotations.Nullable;

/**
 * The clock with which a media driver and its clients stamp their heartbeats, each of which the other side compares
 * with its own time. Aeron's default is the time of day: a step of it looks like the death of all of them.
 */
final class DriverClock {
    /**
     * Milliseconds of a clock that never steps and is the same for all processes of a host, on HotSpot:
     * {@link System#nanoTime} reads {@code CLOCK_MONOTONIC} on Linux, {@code mach_absolute_time} on macOS and
     * {@code QueryPerformanceCounter} on Windows, all of which count from the start of the system. Only processes in
     * Linux time namespaces with offsets see others. The clock begins in 2004, so that it differs from the time of day,
     * even where that begins in 1970.
     */
    static final EpochClock STEADY = () -> TimeUnit.NANOSECONDS.toMillis(System.nanoTime()) + (1L << 40);

    private static final long RETRY_NS = TimeUnit.MILLISECONDS.toNanos(1);

    private DriverClock() {
    }

    /**
     * Returns the clock of the driver that runs in a directory: {@link #STEADY}, or the time of day for a driver that
     * was not started by {@link AeronDriver}; {@code null} if none runs there.
     *
     * @param timeoutMs age of its heartbeat from which a driver counts as gone, and the time it may take to start
     */
    static @Nullable EpochClock of(Path directory, long timeoutMs) {
        File file = directory.resolve(CncFileDescriptor.CNC_FILE).toFile();
        if (file.length() <= CncFileDescriptor.META_DATA_LENGTH) {
            return null;
        }
        MappedByteBuffer mapped = IoUtil.mapExistingFile(file, CncFileDescriptor.CNC_FILE);
        try {
            return of(mapped, timeoutMs);
        } finally {
            BufferUtil.free(mapped);
        }
    }

    private static @Nullable EpochClock of(MappedByteBuffer mapped, long timeoutMs) {
        UnsafeBuffer metaData = CncFileDescriptor.createMetaDataBuffer(mapped);
        long since = System.nanoTime();
        int version;
        while ((version = metaData.getIntVolatile(CncFileDescriptor.cncVersionOffset(0))) == 0) {
            if (System.nanoTime() - since > TimeUnit.MILLISECONDS.toNanos(timeoutMs)) {
                return null;
            }
            Backoff.park(RETRY_NS);
        }
        CncFileDescriptor.checkVersion(version);
        long beat = new ManyToOneRingBuffer(CncFileDescriptor.createToDriverBuffer(mapped, metaData))
                .consumerHeartbeatTime();
        long age = STEADY.time() - beat;
        long dayAge = SystemEpochClock.INSTANCE.time() - beat;
        if (Math.abs(dayAge) < Math.abs(age)) {
            return dayAge <= timeoutMs ? SystemEpochClock.INSTANCE : null;
        }
        // A heartbeat in the future is from before the system started.
        return age >= 0 && age <= timeoutMs ? STEADY : null;
    }
}
