package dev.starling.distributed.ps.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.ps.config.Consistency;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Rule;
import java.io.IOException;
import java.util.BitSet;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class PlanTest {
    private static final long[] COUNTS = {25_450_001, 512, 1, 0, 100_352, 10, 784, 65_536, 3, 12_000, 2048};

    private static Plan plan(int servers) {
        List<Plan.Dense> dense = java.util.Arrays.stream(COUNTS)
                .mapToObj(n -> new Plan.Dense("p" + n, n, new Rule.Adam(0.9, 0.99, 1e-8, 0, false)))
                .toList();
        return new Plan(servers, 3, 4096, new Consistency.Stale(4), dense,
                List.of(new Plan.Table("users", 16, 1000, 0.5, new Rule.Adagrad(1e-8, 0, 0))));
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4, 7})
    void everyElementHasOneServerAndServersHaveEqualShares(int servers) {
        Plan plan = plan(servers);
        BitSet[] seen = new BitSet[COUNTS.length];
        java.util.Arrays.setAll(seen, i -> new BitSet());
        long total = 0;
        long maxLoad = 0;
        for (int s = 0; s < servers; s++) {
            long load = 0;
            for (Plan.Block b : plan.blocks(s)) {
                assertThat(b.length()).isBetween(1, 4096);
                for (long i = b.from(); i < b.from() + b.length(); i++) {
                    assertThat(seen[b.parameter()].get((int) i)).isFalse();
                    seen[b.parameter()].set((int) i);
                }
                load += b.length();
            }
            total += load;
            maxLoad = Math.max(maxLoad, load);
        }
        for (int p = 0; p < COUNTS.length; p++) {
            assertThat(seen[p].cardinality()).isEqualTo((int) COUNTS[p]);
        }
        assertThat((double) maxLoad).isLessThan(1.01 * total / servers);
    }

    @Test
    void distributesKeysEvenlyAndStably() {
        int[] load = new int[4];
        Plan plan = plan(4);
        for (long key = 0; key < 100_000; key++) {
            load[plan.serverOf(key * 64)]++;
        }
        for (int n : load) {
            assertThat(n).isBetween(24_000, 26_000);
        }
    }

    @Test
    void roundTripsThroughItsEncoding() throws IOException {
        for (Consistency c : new Consistency[]{new Consistency.Asynchronous(), new Consistency.Stale(0),
            new Consistency.Synchronous()}) {
            Plan plan = new Plan(3, 2, 128, c, plan(3).dense(), plan(3).tables());
            assertThat(Plan.decode(plan.encode())).isEqualTo(plan);
        }
    }

    @Test
    void errorsNameInvalidNumbers() {
        assertThatThrownBy(() -> new Plan(0, 1, 64, new Consistency.Asynchronous(), List.of(), List.of()))
                .isInstanceOf(TensorException.class).hasMessageContaining("got 0, 1 and 64");
        assertThatThrownBy(() -> new Plan(1, Integer.MAX_VALUE, 64, new Consistency.Asynchronous(), List.of(),
                List.of())).isInstanceOf(TensorException.class).hasMessageContaining("got 1, 2147483647 and 64");
        assertThatThrownBy(() -> new Plan(1, 1, 1 << 30, new Consistency.Asynchronous(), List.of(), List.of()))
                .isInstanceOf(TensorException.class).hasMessageContaining("got 1, 1 and 1073741824");
        assertThatThrownBy(() -> new Plan.Dense("w", -1, new Rule.Sgd(0, 0, 0, false)))
                .isInstanceOf(TensorException.class).hasMessageContaining("got w with -1");
        Plan.Table wide = new Plan.Table("wide", Integer.MAX_VALUE, 1, 0, new Rule.Sgd(0, 0, 0, false));
        assertThatThrownBy(() -> new Plan(1, 1, 64, new Consistency.Asynchronous(), List.of(), List.of(wide)))
                .isInstanceOf(TensorException.class).hasMessageContaining("got width " + Integer.MAX_VALUE);
        assertThatThrownBy(() -> new Consistency.Stale(-1)).isInstanceOf(TensorException.class)
                .hasMessageContaining("got -1");
    }
}
