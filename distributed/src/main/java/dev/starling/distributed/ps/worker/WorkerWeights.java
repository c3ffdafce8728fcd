package dev.starling.distributed.ps.worker;

import dev.starling.distributed.ps.wire.Plan;
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

/** A worker's memory for the weights and the rule state that servers send, divided into blocks. */
public final class WorkerWeights implements AutoCloseable {
    private final Arena arena = Arena.ofShared();
    private final List<Parameter> parameters;
    /** By parameter. */
    private final BlockRequest[][] requests;
    private final Tensor[] weights;
    private final MemorySegment[] memory;
    /** State of the rules, by parameter and slot; empty unless this worker writes it to checkpoints. */
    private Tensor[][] kept = {};
    private List<List<Parameter>> keepers = List.of();
    private int maxSlots;

    /** Copies the parameters and creates a request for each block of all servers. */
    public WorkerWeights(List<Parameter> parameters, Plan plan, ServerLink[] servers, RandomGenerator random) {
        this.parameters = parameters;
        requests = new BlockRequest[parameters.size()][];
        weights = new Tensor[parameters.size()];
        memory = new MemorySegment[parameters.size()];
        List<List<BlockRequest>> byParameter = new ArrayList<>();
        for (int i = 0; i < weights.length; i++) {
            memory[i] = arena.allocate(Math.max(1, parameters.get(i).shape().count()) * Float.BYTES, 64);
            weights[i] = Tensor.wrap(memory[i], DType.F32, parameters.get(i).shape().dims());
            Tensor.apply(new Update.Assign(), weights[i], parameters.get(i).value().to(Device.cpu()));
            byParameter.add(new ArrayList<>());
        }
        for (ServerLink server : servers) {
            List<Plan.Block> blocks = plan.blocks(server.number);
            server.requests = new BlockRequest[blocks.size()];
            for (int u = 0; u < server.requests.length; u++) {
                Plan.Block block = blocks.get(u);
                BlockRequest request = new BlockRequest(server, u, block, new UnsafeBuffer(
                        memory[block.parameter()].address() + 4 * block.from(), 4 * block.length()));
                request.session = random.nextLong();
                server.requests[u] = request;
                byParameter.get(block.parameter()).add(request);
            }
        }
        for (int i = 0; i < weights.length; i++) {
            requests[i] = byParameter.get(i).toArray(BlockRequest[]::new);
        }
    }

    /** Returns the requests by parameter and block. */
    public BlockRequest[][] requests() {
        return requests;
    }

    /**
     * Allocates memory for the rules' state, and initialises it from {@code newKeepers}.
     *
     * @param newKeepers by parameter and slot: this process's copies of the state, from which checkpoints are written
     */
    public void keep(List<List<Parameter>> newKeepers) {
        keepers = newKeepers;
        kept = new Tensor[weights.length][];
        for (int i = 0; i < kept.length; i++) {
            List<Parameter> of = keepers.get(i);
            kept[i] = new Tensor[of.size()];
            maxSlots = Math.max(maxSlots, of.size());
            for (BlockRequest request : requests[i]) {
                request.kept = new UnsafeBuffer[of.size()];
            }
            for (int k = 0; k < of.size(); k++) {
                MemorySegment floats = arena.allocate(memory[i].byteSize(), 64);
                kept[i][k] = Tensor.wrap(floats, DType.F32, parameters.get(i).shape().dims());
                Tensor.apply(new Update.Assign(), kept[i][k], of.get(k).value().to(Device.cpu()));
                for (BlockRequest request : requests[i]) {
                    request.kept[k] = new UnsafeBuffer(floats.address() + 4 * request.block.from(), request.bytes());
                }
            }
        }
    }

    /** Sets the number of steps that led to a parameter's state; with 0, servers do not receive the state. */
    public void keptSteps(int parameter, long steps) {
        for (BlockRequest request : requests[parameter]) {
            request.keptSteps = steps;
        }
    }

    /** Returns the largest number of slots that a rule has. */
    public int maxSlots() {
        return maxSlots;
    }

    /** Copies the received state of the rules to this process's copies. */
    public void adoptKept() {
        try (Scope scope = Scope.open("kept")) {
            for (int i = 0; i < kept.length; i++) {
                for (int k = 0; k < kept[i].length; k++) {
                    keepers.get(i).get(k).set(kept[i][k]);
                }
            }
        }
    }

    /** Copies the received weights into the model. */
    public void adopt() {
        adopt(false);
    }

    /** Copies the received weights into the model, except those of frozen parameters. */
    public void adoptTrained() {
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
