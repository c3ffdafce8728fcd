package dev.starling.distributed.bucket;

import dev.starling.tensor.DType;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/**
 * The place of each gradient in the memory that ranks reduce, and the division of this memory into buckets. Buckets are
 * numbered in the order in which they fill: starting them in this order gives the best overlap. A function of its
 * arguments, so that all ranks have the same plan.
 *
 * <p>The bucket that fills last has no computation left to overlap with. It is therefore the smallest, and each bucket
 * before it is four times as large, up to a limit: it is reduced in the time in which the next one fills, unless the
 * network is much slower than the backward pass. A gradient is never divided; a large one has a bucket of its own.
 *
 * @param entries to place
 * @param buckets in the order in which they fill
 * @param places by entry
 * @param bytes of all buckets
 */
record BucketPlan(List<Entry> entries, List<Bucket> buckets, List<Place> places, long bytes) {
    /** Offsets of buckets and entries are multiples of this, in bytes: a cache line. */
    static final long LINE = 64;

    /** Maximum size of the last bucket in bytes: one message, whose cost is little more than its latency. */
    private static final long MAX_LAST_BYTES = 16 << 10;

    /** How many times as large the bucket before may be. */
    private static final long GROWTH = 4;

    /**
     * An array to place.
     *
     * @param dtype of its elements
     * @param count of its elements
     */
    record Entry(DType dtype, long count) {
        /** Returns the size of its elements in bytes. */
        long size() {
            return count * dtype.bytes();
        }

        private long bytes() {
            return (size() + LINE - 1) / LINE * LINE;
        }
    }

    /**
     * Entries that are reduced together.
     *
     * @param dtype of all elements
     * @param offset of the first byte
     * @param count of elements, including the padding between entries, which is always 0
     * @param entries number of entries
     */
    record Bucket(DType dtype, long offset, long count, int entries) { }

    /**
     * The place of an entry.
     *
     * @param bucket number of its bucket
     * @param offset of its first byte, from the start of all buckets
     */
    record Place(int bucket, long offset) { }

    /** A bucket under construction. */
    private static final class Open {
        private final DType dtype;
        private final long limit;
        private final List<Integer> entries = new ArrayList<>();
        private long bytes;

        Open(DType dtype, long limit) {
            this.dtype = dtype;
            this.limit = limit;
        }
    }

    /**
     * Creates a plan.
     *
     * @param order numbers of all entries in the order in which they become ready, as far as it is known
     * @param limit of a bucket with more than one entry, in bytes
     */
    static BucketPlan of(List<Entry> entries, int[] order, long limit) {
        Map<DType, Open> open = new EnumMap<>(DType.class);
        List<Open> all = new ArrayList<>();
        long next = Math.min(MAX_LAST_BYTES, limit);
        // Start with the last bucket, because sizes grow from there.
        for (int i = order.length - 1; i >= 0; i--) {
            Entry entry = entries.get(order[i]);
            Open bucket = open.get(entry.dtype);
            if (bucket == null || bucket.bytes > 0 && bucket.bytes + entry.bytes() > bucket.limit) {
                bucket = new Open(entry.dtype, next);
                open.put(entry.dtype, bucket);
                // Its first entry here is the last one to fill it, so buckets are listed in reverse filling order.
                all.add(bucket);
                next = Math.min(limit, GROWTH * next);
            }
            bucket.entries.add(order[i]);
            bucket.bytes += entry.bytes();
        }
        Collections.reverse(all);
        return laidOut(entries, all);
    }

    private static BucketPlan laidOut(List<Entry> entries, List<Open> inOrder) {
        List<Bucket> buckets = new ArrayList<>();
        Place[] places = new Place[entries.size()];
        long at = 0;
        for (Open bucket : inOrder) {
            long begin = at;
            for (int i = bucket.entries.size() - 1; i >= 0; i--) {
                int entry = bucket.entries.get(i);
                places[entry] = new Place(buckets.size(), at);
                at += entries.get(entry).bytes();
            }
            buckets.add(new Bucket(bucket.dtype, begin, (at - begin) / bucket.dtype.bytes(), bucket.entries.size()));
        }
        return new BucketPlan(List.copyOf(entries), List.copyOf(buckets), List.of(places), at);
    }
}
