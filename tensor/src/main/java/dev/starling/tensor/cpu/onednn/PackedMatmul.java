package dev.starling.tensor.cpu.onednn;

import org.jspecify.annotations.Nullable;

/**
 * A matrix product whose right operand lies as oneDNN chose, and the reorders that pack it so. It is used only where
 * oneDNN computes it with the kernel that it uses for the operand as it is: both then give the same bits.
 */
final class PackedMatmul implements Compiled {
    /**
     * Columns of an operand that lies column by column are made row-major this many at a time. oneDNN's own reorder of
     * all columns reads along rows, and took up to 9 ms for 1 MiB where distances between columns were powers of two.
     */
    private static final long PANEL = 64;

    private final Executable product;
    private final Layout right;
    /** {@code null} if the primitive reads the caller's operand in place, or is another kernel. */
    private final @Nullable Executable pack;
    /** Makes columns row-major: as many as a panel has, and the rest. {@code null} if not needed. */
    private final @Nullable Executable panel;
    private final @Nullable Executable rest;
    private final long bytes;
    private final long[] packing;

    /**
     * Takes ownership of the primitive's descriptor; the layouts are needed only during this call.
     *
     * @param right the layout of the operand before it is packed, {@code [K, N]}
     * @param plain oneDNN's name of the kernel for the operand as it is
     */
    PackedMatmul(long primitiveDesc, int[] ids, long[] descs, Layout right, String plain) {
        long packed = Dnnl.query(primitiveDesc, Dnnl.QUERY_WEIGHTS);
        long[] exact = descs.clone();
        exact[1] = packed;
        this.right = right;
        product = new Executable(primitiveDesc, ids, exact);
        bytes = Dnnl.size(packed);
        packing = Dnnl.description(packed);
        boolean packs = !Dnnl.equal(packed, descs[1]) && product.implementation().equals(plain);
        boolean turns = packs && right.strides()[0] == 1 && right.strides()[1] > 1;
        long n = right.dims()[1];
        panel = turns && n >= PANEL ? turn(PANEL) : null;
        rest = turns && n % PANEL > 0 ? turn(n % PANEL) : null;
        pack = packs ? reorder(turns ? rowMajor(n) : right, packed) : null;
    }

    private Layout rowMajor(long columns) {
        return new Layout(right.type(), new long[] {right.dims()[0], columns}, new long[] {right.dims()[1], 1});
    }

    private Executable turn(long columns) {
        long to = rowMajor(columns).desc();
        try {
            return reorder(new Layout(right.type(), new long[] {right.dims()[0], columns}, right.strides()), to);
        } finally {
            Dnnl.destroy(Dnnl.Kind.DESC, to);
        }
    }

    private static Executable reorder(Layout from, long to) {
        long desc = from.desc();
        try {
            return Executable.reorder(desc, to, false);
        } finally {
            Dnnl.destroy(Dnnl.Kind.DESC, desc);
        }
    }

    /** Returns the product; its right operand must have been packed. */
    Executable product() {
        return product;
    }

    /** Returns whether the right operand is packed; the product must not be used otherwise. */
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
            pack.reorder(session, panel == null && rest == null ? from : rowMajor(session, from), to);
        }
    }

    /** Returns the address of a row-major copy of the right operand. */
    private long rowMajor(Session session, long from) {
        long elementBytes = right.type().bytes();
        long n = right.dims()[1];
        long rows = session.memory(Session.Use.WEIGHTS, right.dims()[0] * n * elementBytes);
        for (long column = 0; column < n; column += PANEL) {
            Executable turn = n - column < PANEL ? rest : panel;
            if (turn != null) {
                turn.convert(session, from + column * right.strides()[1] * elementBytes, rows + column * elementBytes);
            }
        }
        return rows;
    }

    @Override
    public void close() {
        product.close();
        close(pack);
        close(panel);
        close(rest);
    }

    private static void close(@Nullable Executable executable) {
        if (executable != null) {
            executable.close();
        }
    }
}
