package dev.starling.tensor.cpu.jit;

import java.lang.foreign.MemorySegment;

/** The support for vectors in this JVM. */
public final class Vectors {
    private static final String MODULE = "jdk.incubator.vector";

    private Vectors() { }

    /**
     * Returns the width of this machine's vectors in bits. It is 0 without the Vector API, which needs the JVM flag
     * {@code --add-modules jdk.incubator.vector}, or if the system property {@code starling.vector=false} disables it.
     */
    public static int bits() {
        return Host.BITS;
    }

    /** Returns whether the JVM was started without the Vector API. */
    public static boolean areMissing() {
        return ModuleLayer.boot().findModule(MODULE).isEmpty();
    }

    /**
     * Loads classes that would otherwise be loaded later and make the JVM discard compiled kernels: it compiles calls
     * on segments and vectors for the subclasses that it has loaded.
     */
    static void load() {
        MemorySegment.ofArray(new byte[1]);
        MemorySegment.ofArray(new short[1]);
        MemorySegment.ofArray(new int[1]);
        MemorySegment.ofArray(new long[1]);
        MemorySegment.ofArray(new float[1]);
        MemorySegment.ofArray(new double[1]);
        if (bits() > 0) {
            for (String element : new String[] {"Byte", "Short", "Int", "Long", "Float", "Double"}) {
                try {
                    Class.forName(MODULE + "." + element + "Vector");
                } catch (ClassNotFoundException e) {
                    throw new IllegalStateException("this JVM's Vector API differs from that of JDK 25", e);
                }
            }
        }
    }

    /** Looked up once, when the first kernel is generated. */
    private static final class Host {
        static final int BITS = detect();

        private static int detect() {
            Module module = ModuleLayer.boot().findModule(MODULE).orElse(null);
            if (module == null || System.getProperty("starling.vector", "true").equals("false")) {
                return 0;
            }
            Vectors.class.getModule().addReads(module);
            try {
                Class<?> shape = Class.forName(MODULE + ".VectorShape");
                Object preferred = shape.getMethod("preferredShape").invoke(null);
                return Integer.highestOneBit(Math.min(512, (int) shape.getMethod("vectorBitSize").invoke(preferred)));
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException("this JVM's Vector API differs from that of JDK 25", e);
            }
        }
    }
}
