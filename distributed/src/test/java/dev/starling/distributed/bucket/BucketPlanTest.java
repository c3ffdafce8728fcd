package dev.starling.distributed.bucket;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.bucket.BucketPlan.Bucket;
import dev.starling.distributed.bucket.BucketPlan.Entry;
import dev.starling.distributed.bucket.BucketPlan.Place;
import dev.starling.tensor.DType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class BucketPlanTest {
    private static final long MIB = 1 << 20;

    @Test
    void placesEveryEntryOnceWithoutOverlap() {
        Random random = new Random(1);
        DType[] types = {DType.F32, DType.BF16, DType.F64};
        for (int trial = 0; trial < 500; trial++) {
            int kinds = 1 + random.nextInt(3);
            List<Entry> entries = new ArrayList<>();
            for (int n = 1 + random.nextInt(40); n > 0; n--) {
                entries.add(new Entry(types[random.nextInt(kinds)], 1 + random.nextInt(1 << random.nextInt(20))));
            }
            List<Integer> order = new ArrayList<>(IntStream.range(0, entries.size()).boxed().toList());
            Collections.shuffle(order, random);
            long limit = 1 + random.nextInt(4 << 20);
            BucketPlan plan = BucketPlan.of(entries, order.stream().mapToInt(i -> i).toArray(), limit);

            int[] held = new int[plan.buckets().size()];
            List<long[]> spans = new ArrayList<>();
            for (int i = 0; i < entries.size(); i++) {
                Entry entry = entries.get(i);
                Place place = plan.places().get(i);
                Bucket bucket = plan.buckets().get(place.bucket());
                held[place.bucket()]++;
                assertThat(bucket.dtype()).isEqualTo(entry.dtype());
                assertThat(place.offset() % 64).isZero();
                assertThat(place.offset()).isGreaterThanOrEqualTo(bucket.offset());
                long end = place.offset() + entry.count() * entry.dtype().bytes();
                assertThat(end).isLessThanOrEqualTo(bucket.offset() + bucket.count() * bucket.dtype().bytes());
                spans.add(new long[] {place.offset(), end});
            }
            spans.sort((a, b) -> a[0] != b[0] ? Long.compare(a[0], b[0]) : Long.compare(a[1], b[1]));
            for (int i = 1; i < spans.size(); i++) {
                assertThat(spans.get(i)[0]).isGreaterThanOrEqualTo(spans.get(i - 1)[1]);
            }
            for (int b = 0; b < held.length; b++) {
                Bucket bucket = plan.buckets().get(b);
                assertThat(bucket.entries()).isEqualTo(held[b]).isPositive();
                assertThat(bucket.entries() == 1 || bucket.count() * bucket.dtype().bytes() <= limit).isTrue();
            }
        }
    }

    @Test
    void fillsBucketsInOrderWithSizesThatGrowFromTheLast() {
        List<Entry> entries = IntStream.range(0, 4000).mapToObj(i -> new Entry(DType.F32, 1000)).toList();
        int[] order = IntStream.range(0, 4000).map(i -> (i * 7 + 3) % 4000).toArray();
        BucketPlan plan = BucketPlan.of(entries, order, 4 * MIB);
        int[] buckets = IntStream.of(order).map(i -> plan.places().get(i).bucket()).toArray();
        assertThat(buckets).isSorted();
        long[] bytes = plan.buckets().stream().mapToLong(b -> b.count() * 4).toArray();
        long most = MIB / 64;
        for (int b = bytes.length - 1; b > 0; b--) {
            assertThat(bytes[b]).isBetween(most * 3 / 4, most);
            most = Math.min(4 * most, 4 * MIB);
        }
        assertThat(Arrays.stream(bytes).sum()).isEqualTo(plan.bytes()).isBetween(4000 * 4000L, 4000 * 4032L);
        assertThat(plan.buckets()).hasSizeLessThan(10);
    }

    @Test
    void fillsBucketsOfSeveralTypesInOrder() {
        List<Entry> entries = IntStream.range(0, 200).mapToObj(i -> new Entry(i % 50 == 20 ? DType.F32 : DType.BF16,
                10_000)).toList();
        BucketPlan plan = BucketPlan.of(entries, IntStream.range(0, 200).toArray(), MIB / 4);
        int[] filled = new int[plan.buckets().size()];
        for (int i = 0; i < 200; i++) {
            filled[plan.places().get(i).bucket()] = i;
        }
        assertThat(filled).hasSizeGreaterThan(10).isSorted();
    }

    @Test
    void usesABucketOfItsOwnForALargeGradient() {
        BucketPlan plan = BucketPlan.of(List.of(new Entry(DType.F32, 10), new Entry(DType.F32, 3 * MIB),
                new Entry(DType.F32, 10)), new int[] {2, 1, 0}, 4 * MIB);
        assertThat(plan.buckets()).extracting(Bucket::entries).containsExactly(1, 1, 1);
        assertThat(plan.places()).extracting(Place::bucket).containsExactly(2, 1, 0);
    }
}
