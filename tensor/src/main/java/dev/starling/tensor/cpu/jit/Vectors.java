package dev.starling.tensor.cpu.jit;

import java.lang.foreign.MemorySegment;

/** What this JVM offers in the way of vectors. */
public final class Vectors {
    private static final String MODULE = "jdk.incubator.vector";

    private Vectors() { }

    /**
     * The width of this machine's vectors in bits; 0 if the Vector API is not there, or switched off with the system
     * property {@code starling.vector=false}. The Vector API is there if the JVM was started with
     * {@code --add-modules jdk.incubator.vector}.
     */
    public static int bits() {
        return Host.BITS;
    }

    /** Whether the JVM was started without the Vector API. */
    public static boolean areMissing() {
        return ModuleLayer.boot().findModule(MODULE).isEmpty();
    }

    /**
     * Loads the classes whose later arrival would make the JVM throw away compiled kernels: it compiles calls on
     * segments and vectors for the subclasses that it has seen.
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
                    throw new IllegalStateException("the Vector API of this JVM is not as expected", e);
                }
            }
        }
    }

    /** Looked up once, and not before the first kernel. */
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
                throw new IllegalStateException("the Vector API of this JVM is not as expected", e);
            }
        }
    }
}
