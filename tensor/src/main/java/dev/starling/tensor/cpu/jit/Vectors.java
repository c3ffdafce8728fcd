package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.spi.VectorApi;
import java.lang.foreign.MemorySegment;

/** The support for vectors in this JVM. */
public final class Vectors {
    private static final String MODULE = "jdk.incubator.vector";

    private Vectors() { }

    /** Returns the width of this machine's vectors in bits, 0 without the Vector API. */
    public static int bits() {
        return VectorApi.bits();
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
}
