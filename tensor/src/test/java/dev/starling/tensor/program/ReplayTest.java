package dev.starling.tensor.program;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Interceptor;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.spi.Chain;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ReplayTest {
    private static final Spec SCRATCH = new Spec(DType.F32, Shape.of(100), Device.cpu());

    /** Needs memory from its second run on, as a kernel in place of a library that declines. */
    private static final class Growing implements Chain.Kernel {
        private final boolean beforeResult;
        private final List<Tensor> scratch = new ArrayList<>();
        private int runs;

        Growing(boolean beforeResult) {
            this.beforeResult = beforeResult;
        }

        @Override
        public Tensor run(Tensor[] operands) {
            runs++;
            if (runs > 1 && beforeResult) {
                scratch.add(Storage.allocate(SCRATCH));
            }
            Tensor result = Storage.allocate(operands[0].spec());
            if (runs > 1 && !beforeResult) {
                scratch.add(Storage.allocate(SCRATCH));
            }
            return result;
        }
    }

    /** A device that records the second run uses the same addresses in all later ones. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void keepsMemoryThatOnlyLaterRunsNeed(boolean beforeResult) {
        Arena arena = new Arena();
        try (Scope scope = Scope.open("test")) {
            Tensor x = Tensor.ones(7);
            Capture capture = new Capture(null, x);
            Tensor y = Interceptor.with(capture, x::exp);
            int output = capture.output(y);
            Flow flow = new Flow(capture, new int[] {output});
            Node node = flow.nodes.getFirst();
            Growing kernel = new Growing(beforeResult);
            flow.nodes.set(0, node.fused(node.inputs, kernel, List.of(node)));
            Tensor[] values = capture.given.toArray(Tensor[]::new);
            values[0] = x;
            int[] group = capture.group.stream().mapToInt(g -> g).toArray();
            Replay replay = new Replay(flow, group, values, arena, null);
            Interceptor.with(replay, () -> {
                replay.plan(0, null);
                return replay;
            });
            for (int i = 0; i < 3; i++) {
                try (Scope step = Scope.open("step")) {
                    Interceptor.with(replay, () -> {
                        replay.run(0, null);
                        return replay;
                    });
                }
            }
            assertThat(kernel.scratch).hasSize(3);
            Tensor scratch = kernel.scratch.getFirst();
            assertThat(scratch.isClosed()).isFalse();
            assertThat(kernel.scratch.get(1)).isSameAs(scratch);
            assertThat(kernel.scratch.get(2)).isSameAs(scratch);
            assertThat(scratch.sharesMemoryWith(values[output])).isFalse();
            assertThat(arena.contains(scratch)).isTrue();
        } finally {
            arena.close();
        }
    }
}
