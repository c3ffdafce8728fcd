package dev.starling.tensor.host;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;

/** The memory that this machine, or the container that the JVM runs in, has in all. */
final class PhysicalMemory {
    /** Memory and swap space, in bytes; the greatest number if the JVM does not know. */
    static final long BYTES = find();

    private PhysicalMemory() {
    }

    private static long find() {
        if (ManagementFactory.getOperatingSystemMXBean() instanceof OperatingSystemMXBean system
                && system.getTotalMemorySize() > 0) {
            return system.getTotalMemorySize() + Math.max(0, system.getTotalSwapSpaceSize());
        }
        return Long.MAX_VALUE;
    }
}
