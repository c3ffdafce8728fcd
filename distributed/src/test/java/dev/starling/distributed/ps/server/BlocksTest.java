package dev.starling.distributed.ps.server;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Rule;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The weights of a server. */
class BlocksTest {
    /** A worker sends a plan of a few bytes that describes any number of weights. */
    @Test
    void areRefusedIfTheHeapHasNoRoomForThem() {
        Plan plan = new Plan(1, 1, 1, new Consistency.Asynchronous(), List.of(new Plan.Dense("p", 1L << 50,
                new Rule.Sgd(0, 0, 0, false))), List.of());
        assertThatThrownBy(() -> new Blocks(plan, 0)).isInstanceOf(TensorException.class)
                .hasMessageContaining("its heap has at most " + Runtime.getRuntime().maxMemory())
                .hasMessageContaining("use more servers");
    }
}
