package dev.starling.tensor.spi;

import org.jspecify.annotations.Nullable;

/**
 * Whether loops may use the JDK's Vector API ({@code jdk.incubator.vector}) in this process. Decided once, for all
 * modules: no other class examines modules or system properties for it. Only classes that are loaded after
 * {@link #isPresent} has returned true may use the API.
 */
public final class VectorApi {
    private static final String NAME = "jdk.incubator.vector";
    private static final @Nullable Module MODULE = ModuleLayer.boot().findModule(NAME).orElse(null);
    private static final boolean DISABLED = "false".equals(System.getProperty("starling.vector"));
    private static final int MAX_BITS = 512;

    static {
        if (isPresent()) {
            VectorApi.class.getModule().addReads(MODULE);
        }
    }

    private VectorApi() { }

    /** Returns whether the JVM has resolved the module and the system property {@code starling.vector} allows it. */
    public static boolean isPresent() {
        return MODULE != null && !DISABLED;
    }

    /** Returns why the API is not used and what to do about it, or an empty text if it is used. */
    public static String obstacle() {
        if (MODULE == null) {
            return "the JVM was started without the Vector API; --add-modules=" + NAME + " adds it";
        }
        return DISABLED ? "the system property starling.vector=false disables it" : "";
    }

    /** Returns the width in bits of this machine's vectors, at most 512; 0 if the API is not used. */
    public static int bits() {
        return isPresent() ? Width.BITS : 0;
    }

    /** Initialises the API's classes, and therefore waits for the first caller that needs it. */
    private static final class Width {
        static final int BITS = preferred();

        private static int preferred() {
            try {
                Class<?> shape = Class.forName(NAME + ".VectorShape");
                Object preferred = shape.getMethod("preferredShape").invoke(null);
                int bits = (int) shape.getMethod("vectorBitSize").invoke(preferred);
                return Integer.highestOneBit(Math.min(MAX_BITS, bits));
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException("this JVM's Vector API differs from that of JDK 25", e);
            }
        }
    }
}
