package dev.starling.tensor.cpu.onednn;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * A compiled primitive with its memory objects and argument list. It belongs to one {@link Session}, hence to one
 * thread at a time. To run it, bind an address to each argument, then call {@link #run}.
 */
final class Executable implements Compiled {
    private static final int ARGUMENT_BYTES = 16;

    private final Arena arena = Arena.ofShared();
    private final long primitiveDesc;
    private final long primitive;
    private final long[] memories;
    private final long[] bound;
    private final long arguments;
    private final long scratchBytes;
    private final boolean scratch;

    /**
     * Compiles {@code primitiveDesc} and takes ownership of it.
     *
     * @param ids the arguments, as {@code DNNL_ARG_…}
     * @param descs their layouts, in the same order; needed only during this call
     */
    Executable(long primitiveDesc, int[] ids, long[] descs) {
        this.primitiveDesc = primitiveDesc;
        primitive = created(primitiveDesc);
        long scratchDesc = Dnnl.query(primitiveDesc, Dnnl.QUERY_SCRATCHPAD);
        scratchBytes = scratchDesc == 0 ? 0 : Dnnl.size(scratchDesc);
        scratch = scratchBytes > 0;
        int count = ids.length + (scratch ? 1 : 0);
        memories = new long[count];
        bound = new long[count];
        MemorySegment list = arena.allocate((long) count * ARGUMENT_BYTES, 8);
        for (int i = 0; i < count; i++) {
            memories[i] = Dnnl.memory(i < ids.length ? descs[i] : scratchDesc);
            list.set(JAVA_INT, (long) i * ARGUMENT_BYTES, i < ids.length ? ids[i] : Dnnl.ARG_SCRATCHPAD);
            list.set(JAVA_LONG, (long) i * ARGUMENT_BYTES + 8, memories[i]);
        }
        arguments = list.address();
    }

    private static long created(long primitiveDesc) {
        try {
            return Dnnl.primitive(primitiveDesc);
        } catch (OneDnnException e) {
            Dnnl.destroy(Dnnl.Kind.PRIMITIVE_DESC, primitiveDesc);
            throw e;
        }
    }

    /** Sets the address of argument {@code index} (its position in the constructor's list). */
    void bind(int index, long address) {
        if (bound[index] != address) {
            Dnnl.setData(memories[index], address);
            bound[index] = address;
        }
    }

    void run(Session session) {
        if (scratch) {
            bind(memories.length - 1, session.memory(Session.Use.SCRATCHPAD, scratchBytes));
        }
        Dnnl.execute(primitive, session.stream(), memories.length, arguments);
    }

    /**
     * Compiles {@code to = from} or {@code to += from} between two layouts, which are needed only during this call.
     */
    static Executable reorder(long from, long to, boolean accumulate) {
        long attributes = Dnnl.attributes(accumulate);
        try {
            return new Executable(Dnnl.reorder(from, to, attributes), new int[] {Dnnl.ARG_SRC, Dnnl.ARG_DST},
                new long[] {from, to});
        } finally {
            Dnnl.destroy(Dnnl.Kind.ATTRIBUTES, attributes);
        }
    }

    /** Runs a primitive compiled by {@link #reorder(long, long, boolean)} between two layouts. */
    void reorder(Session session, long from, long to) {
        Reorders.count();
        convert(session, from, to);
    }

    /** The same without counting it: a part of a copy, or a copy between equal layouts, of which types may differ. */
    void convert(Session session, long from, long to) {
        bind(0, from);
        bind(1, to);
        run(session);
    }

    /** Returns a layout of the primitive ({@code dnnl_query_…_md}), valid as long as this object. */
    long desc(int query) {
        return Dnnl.query(primitiveDesc, query);
    }

    String implementation() {
        return Dnnl.implementation(primitiveDesc);
    }

    @Override
    public void close() {
        for (long memory : memories) {
            Dnnl.destroy(Dnnl.Kind.MEMORY, memory);
        }
        Dnnl.destroy(Dnnl.Kind.PRIMITIVE, primitive);
        Dnnl.destroy(Dnnl.Kind.PRIMITIVE_DESC, primitiveDesc);
        arena.close();
    }
}
