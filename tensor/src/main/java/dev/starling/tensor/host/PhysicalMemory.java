package dev.starling.tensor.host;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;

/** The total memory of this machine, or of the container in which the JVM runs. */
final class PhysicalMemory {
    /** Memory and swap space in bytes; {@link Long#MAX_VALUE} if the JVM does not know. */
    static final long BYTES = find();

    private PhysicalMemory() {
    }

    private static long find() {
        try {
            if (ManagementFactory.getOperatingSystemMXBean() instanceof OperatingSystemMXBean system
                    && system.getTotalMemorySize() > 0) {
                return system.getTotalMemorySize() + Math.max(0, system.getTotalSwapSpaceSize());
            }
        } catch (LinkageError e) {
            // A Java image without the module jdk.management.
        }
        return Long.MAX_VALUE;
    }
}
