package dev.starling.distributed;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.gossip.Gossip;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.nn.train.Collective;
import dev.starling.nn.train.Concludes;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.StreamsGradients;
import dev.starling.tensor.Tensor;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;

/** A program without a trainer may call a strategy before it has started it. */
class StartTest {
    @Test
    void strategiesNameTheCallThatNeedsAStart() {
        Cluster.local(1).run(group -> {
            refuse(RingAllReduce.over(group).build(), "gradient", "beforeStep", "afterStep", "settle", "sum", "finish");
            refuse(Gossip.of(group), "conclude");
            ParameterServer.Builder worker = ParameterServer.worker(group, 0).workers(1);
            refuse(worker.build(), "gradient", "onFailedStep", "beforeStep", "afterStep", "settle", "finish");
            refuse(worker.consistency(new Consistency.Synchronous()).build(), "beforeForward", "gradient",
                    "onFailedStep", "beforeStep", "afterStep", "stops", "settle", "sum", "finish");
            return null;
        });
    }

    private static void refuse(DistributionStrategy strategy, String... methods) {
        Map<String, ThrowingCallable> calls = new LinkedHashMap<>();
        Tensor tensor = Tensor.of(new float[] {1}, 1);
        calls.put("beforeForward", () -> StreamsGradients.of(strategy).beforeForward(tensor));
        calls.put("gradient", () -> StreamsGradients.of(strategy).gradient(0, tensor));
        calls.put("onFailedStep", () -> StreamsGradients.of(strategy).onFailedStep());
        calls.put("beforeStep", () -> strategy.beforeStep(new Tensor[] {tensor}));
        calls.put("afterStep", strategy::afterStep);
        calls.put("settle", strategy::settle);
        calls.put("stops", () -> Collective.of(strategy).stops(false));
        calls.put("sum", () -> Collective.of(strategy).sum(new double[1]));
        calls.put("conclude", () -> Concludes.of(strategy).conclude());
        calls.put("finish", () -> Concludes.of(strategy).finish());
        calls.keySet().retainAll(Set.of(methods));
        calls.forEach((method, call) -> assertThatThrownBy(call).as("%s of %s", method, strategy)
                .isInstanceOf(IllegalStateException.class).hasMessageStartingWith(method + " needs")
                .hasMessageContaining("call start first"));
    }
}
