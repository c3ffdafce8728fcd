package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.cpu.x86.MachineCode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.IntSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The compiled form of an {@link Expression}: a kernel for each combination of operand layouts, generated when first
 * needed. Run through a {@link Launch}. Thread-safe.
 */
public final class FusedLoop {
    private static final ConcurrentHashMap<Expression, FusedLoop> LOOPS = new ConcurrentHashMap<>();
    private static final int ACCESSES = Access.values().length;
    /**
     * Largest number of primitives in a loop that the JVM compiles; it only interprets methods of more than 8,000
     * bytes.
     */
    private static final int MAX_PRIMITIVES = 400;

    private final Expression expression;
    private final LoopBody body;
    private final IntSupplier vectorBits;
    private final int nativeBits;
    private final long stridedKey;
    private volatile @Nullable Variant flat;
    private volatile Variant[] variants = {};

    /**
     * Makes a loop.
     *
     * @param vectorBits width of the Vector API's vectors, 0 to use none; called if there is no machine code
     * @param nativeBits width of the vectors of machine code, 0 to make none
     */
    FusedLoop(Expression expression, IntSupplier vectorBits, int nativeBits) {
        this.expression = expression;
        this.vectorBits = vectorBits;
        this.nativeBits = nativeBits;
        body = Lowering.lower(expression);
        long key = 0;
        for (int k = 0; k < expression.operands(); k++) {
            key = extend(key, Access.STRIDED);
        }
        stridedKey = key;
    }

    /** Returns whether the loop of an expression is short enough for the JVM's compilers. */
    public static boolean isCompilable(Expression expression) {
        return Lowering.lower(expression).nodes().size() <= MAX_PRIMITIVES;
    }

    /** Returns the loop of an expression; equal expressions share one for the life of the process. */
    public static FusedLoop of(Expression expression) {
        FusedLoop loop = LOOPS.get(expression);
        if (loop != null) {
            return loop;
        }
        FusedLoop made = new FusedLoop(expression, Vectors::bits, MachineCode.VECTOR_BITS);
        FusedLoop other = LOOPS.putIfAbsent(expression, made);
        return other != null ? other : made;
    }

    public Expression expression() {
        return expression;
    }

    /** Appends the access of the next operand to a variant's key. */
    static long extend(long key, Access access) {
        return key * ACCESSES + access.ordinal();
    }

    /** Returns the key of the variant in which operands of set bits are broadcast and the others contiguous. */
    static long key(int operands, int broadcast) {
        long key = 0;
        for (int k = 0; k < operands; k++) {
            key = extend(key, (broadcast >> k & 1) != 0 ? Access.BROADCAST : Access.CONTIGUOUS);
        }
        return key;
    }

    /** Returns the variant whose operands are all contiguous. */
    Variant flat() {
        Variant known = flat;
        if (known == null) {
            known = variant(0);
            flat = known;
        }
        return known;
    }

    /** Returns the variant for any strides. */
    Variant strided() {
        return variant(stridedKey);
    }

    Variant variant(long key) {
        for (Variant variant : variants) {
            if (variant.key == key) {
                return variant;
            }
        }
        return generate(key);
    }

    private synchronized Variant generate(long key) {
        for (Variant variant : variants) {
            if (variant.key == key) {
                return variant;
            }
        }
        List<Access> accesses = new ArrayList<>();
        long rest = key;
        for (int k = 0; k < expression.operands(); k++) {
            accesses.add(Access.values()[(int) (rest % ACCESSES)]);
            rest /= ACCESSES;
        }
        Collections.reverse(accesses);
        Kernel kernel = NativeKernel.of(expression, body, accesses, nativeBits,
                () -> KernelWriter.write(expression, body, accesses, 0));
        boolean inVectors = true;
        if (kernel == null) {
            int bits = vectorBits.getAsInt();
            inVectors = key != stridedKey && VectorInstructions.width(body, expression, bits) > 0;
            kernel = KernelWriter.write(expression, body, accesses, bits);
        }
        Variant made = new Variant(key, kernel, grain(inVectors));
        Variant[] grown = Arrays.copyOf(variants, variants.length + 1);
        grown[variants.length] = made;
        variants = grown;
        return made;
    }

    /** Returns the number of elements that take some 10 µs: a power of 2, so that no part ends within a vector. */
    private long grain(boolean inVectors) {
        int work = Integer.highestOneBit(body.nodes().size());
        return inVectors ? Math.clamp((1 << 19) / work, 1 << 13, 1 << 15)
                : Math.clamp((1 << 16) / work, 1 << 10, 1 << 13);
    }

    /** A kernel for one combination of accesses, and the number of elements that justifies a thread. */
    record Variant(long key, Kernel kernel, long grain) { }
}
