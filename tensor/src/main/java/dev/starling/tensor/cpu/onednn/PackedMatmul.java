package dev.starling.tensor.cpu.onednn;

import org.jspecify.annotations.Nullable;

/** A matrix product whose right operand lies as oneDNN chose, and the reorder that packs it so. */
final class PackedMatmul implements Compiled {
    private final Executable product;
    /** {@code null} if the primitive reads the caller's operand in place. */
    private final @Nullable Executable pack;
    private final long bytes;
    private final long[] packing;

    /** Takes ownership of the primitive's descriptor; the layouts are needed only during this call. */
    PackedMatmul(long primitiveDesc, int[] ids, long[] descs) {
        long packed = Dnnl.query(primitiveDesc, Dnnl.QUERY_WEIGHTS);
        long[] exact = descs.clone();
        exact[1] = packed;
        product = new Executable(primitiveDesc, ids, exact);
        pack = Dnnl.equal(packed, descs[1]) ? null : Executable.reorder(descs[1], packed, false);
        bytes = Dnnl.size(packed);
        packing = Dnnl.description(packed);
    }

    /** Returns the product; its right operand must have been packed. */
    Executable product() {
        return product;
    }

    /** Returns whether packing changes the right operand. */
    boolean packs() {
        return pack != null;
    }

    long bytes() {
        return bytes;
    }

    /** Returns a description of the packing, equal for equal packings. */
    long[] packing() {
        return packing;
    }

    void pack(Session session, long from, long to) {
        if (pack != null) {
            pack.reorder(session, from, to);
        }
    }

    @Override
    public void close() {
        product.close();
        if (pack != null) {
            pack.close();
        }
    }
}
