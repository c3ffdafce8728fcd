package dev.starling.distributed.ps;

import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Update;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.random.RandomGenerator;
import org.agrona.concurrent.UnsafeBuffer;

/** Memory for the weights that come, and what rules keep of them, and the units that both come in. */
final class Replica implements AutoCloseable {
    private final Arena arena = Arena.ofShared();
    private final List<Parameter> parameters;
    /** By parameter. */
    private final Unit[][] units;
    private final Tensor[] weights;
    private final MemorySegment[] memory;
    /** What rules keep, by parameter; empty unless this worker carries that to and from checkpoints. */
    private Tensor[][] kept = {};
    private List<List<Parameter>> keepers = List.of();
    private int mostKept;

    /** Makes a copy of parameters, in the units of all servers. */
    Replica(List<Parameter> parameters, Plan plan, ServerLink[] servers, RandomGenerator random) {
        this.parameters = parameters;
        units = new Unit[parameters.size()][];
        weights = new Tensor[parameters.size()];
        memory = new MemorySegment[parameters.size()];
        List<List<Unit>> byParameter = new ArrayList<>();
        for (int i = 0; i < weights.length; i++) {
            memory[i] = arena.allocate(Math.max(1, parameters.get(i).shape().count()) * Float.BYTES, 64);
            weights[i] = Tensor.wrap(memory[i], DType.F32, parameters.get(i).shape().dims());
            Tensor.apply(new Update.Assign(), weights[i], parameters.get(i).value().to(Device.cpu()));
            byParameter.add(new ArrayList<>());
        }
        for (ServerLink server : servers) {
            List<Plan.Block> blocks = plan.blocks(server.number);
            server.units = new Unit[blocks.size()];
            for (int u = 0; u < server.units.length; u++) {
                Plan.Block block = blocks.get(u);
                Unit unit = new Unit(server, u, block, new UnsafeBuffer(memory[block.parameter()].address()
                        + 4 * block.from(), 4 * block.length()));
                unit.session = random.nextLong();
                server.units[u] = unit;
                byParameter.get(block.parameter()).add(unit);
            }
        }
        for (int i = 0; i < weights.length; i++) {
            units[i] = byParameter.get(i).toArray(Unit[]::new);
        }
    }

    /** Returns the units by parameter. */
    Unit[][] units() {
        return units;
    }

    /**
     * Makes memory for what rules keep of each parameter, with what was kept before.
     *
     * @param newKeepers by parameter, in the order of the rule: where that is between a settling and the next
     */
    void keep(List<List<Parameter>> newKeepers) {
        keepers = newKeepers;
        kept = new Tensor[weights.length][];
        for (int i = 0; i < kept.length; i++) {
            List<Parameter> of = keepers.get(i);
            kept[i] = new Tensor[of.size()];
            mostKept = Math.max(mostKept, of.size());
            for (Unit unit : units[i]) {
                unit.kept = new UnsafeBuffer[of.size()];
            }
            for (int k = 0; k < of.size(); k++) {
                MemorySegment floats = arena.allocate(memory[i].byteSize(), 64);
                kept[i][k] = Tensor.wrap(floats, DType.F32, parameters.get(i).shape().dims());
                Tensor.apply(new Update.Assign(), kept[i][k], of.get(k).value().to(Device.cpu()));
                for (Unit unit : units[i]) {
                    unit.kept[k] = new UnsafeBuffer(floats.address() + 4 * unit.block.from(), unit.bytes());
                }
            }
        }
    }

    /** Returns how many things rules keep of one parameter at most. */
    int mostKept() {
        return mostKept;
    }

    /** Copies what was kept by servers to where this process keeps it. */
    void adoptKept() {
        try (Scope scope = Scope.open("kept")) {
            for (int i = 0; i < kept.length; i++) {
                for (int k = 0; k < kept[i].length; k++) {
                    keepers.get(i).get(k).set(kept[i][k]);
                }
            }
        }
    }

    /** Copies the weights that came into the model. */
    void adopt() {
        adopt(false);
    }

    /** Copies the weights that came into the model, but for parameters that are frozen here. */
    void adoptTrained() {
        adopt(true);
    }

    private void adopt(boolean trainedOnly) {
        try (Scope scope = Scope.open("weights")) {
            for (int i = 0; i < weights.length; i++) {
                if (!trainedOnly || parameters.get(i).requiresGradient()) {
                    parameters.get(i).set(weights[i]);
                }
            }
        }
    }

    @Override
    public void close() {
        for (Tensor each : weights) {
            each.close();
        }
        for (Tensor[] each : kept) {
            for (Tensor tensor : each) {
                tensor.close();
            }
        }
        arena.close();
    }
}
