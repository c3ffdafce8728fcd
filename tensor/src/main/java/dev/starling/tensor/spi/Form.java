package dev.starling.tensor.spi;

import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A copy of a tensor's elements in the order in which a kernel reads them: packed, or transformed. Its storage keeps it
 * until the elements change ({@link dev.starling.tensor.Storage#form}). The memory is freed when neither the storage
 * nor a kernel uses it any more, so that a kernel may still read a form that the storage has dropped.
 */
public final class Form implements AutoCloseable {
    private final Allocator allocator;
    private final Block block;
    private final AtomicInteger users = new AtomicInteger(1);

    private Form(Allocator allocator, long bytes) {
        this.allocator = allocator;
        block = allocator.allocate(bytes);
    }

    /** Makes a form of which the caller is the only user. */
    public static Form of(Allocator allocator, long bytes, Writer writer) {
        Form form = new Form(allocator, bytes);
        boolean written = false;
        try {
            writer.write(form.address());
            written = true;
            return form;
        } finally {
            if (!written) {
                form.close();
            }
        }
    }

    /** Returns the address of the first byte, on the host aligned to 64 bytes. */
    public long address() {
        return block.address();
    }

    /** Returns the size in bytes. */
    public long bytes() {
        return block.capacity();
    }

    /** Counts one more user, which closes it; returns false if the memory was freed. */
    public boolean acquire() {
        int now = users.get();
        while (now > 0 && !users.compareAndSet(now, now + 1)) {
            now = users.get();
        }
        return now > 0;
    }

    /** Ends one use; the last one frees the memory. */
    @Override
    public void close() {
        if (users.decrementAndGet() == 0) {
            allocator.free(block);
        }
    }

    /** Identifies a form: which elements of the storage, and the order in which they are copied. */
    public static final class Key {
        private long offset;
        private final long[] layout;
        private final long[] order;

        /**
         * Makes a key; the arrays are not copied, but a storage that keeps a key copies them.
         *
         * @param offset position of the first element in the storage
         * @param layout what else selects the elements, such as sizes and strides
         * @param order what determines the copy; no two kinds of forms may have the same numbers
         */
        public Key(long offset, long[] layout, long[] order) {
            this.offset = offset;
            this.layout = layout;
            this.order = order;
        }

        /** Makes this the key of elements from {@code first} on. */
        public Key at(long first) {
            offset = first;
            return this;
        }

        /** Returns a key of its own arrays. */
        public Key copy() {
            return new Key(offset, layout.clone(), order.clone());
        }

        /** Returns whether two keys identify the same form. */
        public boolean matches(Key other) {
            return offset == other.offset && same(layout, other.layout) && same(order, other.order);
        }

        /** Returns whether this is a form of elements from {@code first} on in an order; layouts are not compared. */
        public boolean isOf(long first, long[] inOrder) {
            return offset == first && same(order, inOrder);
        }

        private static boolean same(long[] a, long[] b) {
            return a == b || Arrays.equals(a, b);
        }
    }

    /** Writes the elements of a form. */
    @FunctionalInterface
    public interface Writer {
        /** Writes all bytes from {@code address} on. */
        void write(long address);
    }
}
