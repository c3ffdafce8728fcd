package dev.starling.errors;

import com.sun.management.UnixOperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** The advice where a process has as many files and sockets open as it may. */
public final class OpenFiles {
    /** The message of the C library, which it may translate, and how the JDK reports the number. */
    private static final Pattern TOO_MANY = Pattern.compile("Too many open files|error[=:] ?24\\b");

    private OpenFiles() {
    }

    /** Returns that advice if an exception, or one of its causes, reports this; otherwise {@code other}. */
    public static String remedy(Throwable failure, String other) {
        for (@Nullable Throwable each = failure; each != null; each = each.getCause()) {
            if (TOO_MANY.matcher(String.valueOf(each.getMessage())).find()) {
                return remedy();
            }
        }
        return other;
    }

    /** Returns the advice, with the present limit. */
    public static String remedy() {
        return "raise the limit of files and sockets that this process may open (ulimit -n)" + limit();
    }

    private static String limit() {
        try {
            return ManagementFactory.getOperatingSystemMXBean() instanceof UnixOperatingSystemMXBean system
                    ? ", which is " + system.getMaxFileDescriptorCount() : "";
        } catch (LinkageError e) {
            // A Java image without the module jdk.management.
            return "";
        }
    }
}
