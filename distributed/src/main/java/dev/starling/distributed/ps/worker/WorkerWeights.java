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
    private final List<List<BlockRequest>> requests = new ArrayList<>();
    private final Tensor[] weights;
    private final MemorySegment[] memory;
    /** State of the rules, by parameter and slot; empty unless this worker writes it to checkpoints. */
    private Tensor[][] kept = {};
    private List<List<Parameter>> keepers = List.of();
    private int maxSlots;

    /** Copies the parameters and creates a request for each block of all servers. */
    public WorkerWeights(List<Parameter> parameters, Plan plan, ServerLink[] servers, RandomGenerator random) {
        this.parameters = parameters;
        weights = new Tensor[parameters.size()];
        memory = new MemorySegment[parameters.size()];
        for (int i = 0; i < weights.length; i++) {
            memory[i] = arena.allocate(Math.max(1, parameters.get(i).shape().count()) * Float.BYTES, 64);
            weights[i] = Tensor.wrap(memory[i], DType.F32, parameters.get(i).shape().dims());
            Tensor.apply(new Update.Assign(), weights[i], parameters.get(i).value().to(Device.cpu()));
            requests.add(new ArrayList<>());
        }
        for (ServerLink server : servers) {
            for (Plan.Block block : plan.blocks(server.number)) {
                BlockRequest request = new BlockRequest(server, server.units.size(), block, new UnsafeBuffer(
                        memory[block.parameter()].address() + 4 * block.from(), 4 * block.length()), random);
                server.units.add(request);
                requests.get(block.parameter()).add(request);
            }
        }
    }

    /** Returns the requests for all blocks. */
    public List<? extends UnitRequest> requests() {
        return requests.stream().flatMap(List::stream).toList();
    }

    /** Makes the next pull request one slot, from 1, of the rule's state; returns the blocks whose rule has it. */
    public List<? extends UnitRequest> requestsOf(int slot) {
        List<BlockRequest> having = requests.stream().flatMap(List::stream).filter(each -> each.kept.length >= slot)
                .toList();
        having.forEach(each -> each.which = slot);
        return having;
    }

    /**
     * Sets the next gradient of a parameter; returns the requests for its blocks.
     *
     * @param address of the gradient, or 0 if there is none
     */
    public List<? extends UnitRequest> setGradient(int parameter, long address, double rate) {
        requests.get(parameter).forEach(each -> each.setGradient(address, rate));
        return requests.get(parameter);
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
            for (BlockRequest request : requests.get(i)) {
                request.kept = new UnsafeBuffer[of.size()];
            }
            for (int k = 0; k < of.size(); k++) {
                MemorySegment floats = arena.allocate(memory[i].byteSize(), 64);
                // The state of a whole parameter may be shorter than the parameter.
                kept[i][k] = Tensor.wrap(floats, DType.F32, of.get(k).shape().dims());
                Tensor.apply(new Update.Assign(), kept[i][k], of.get(k).value().to(Device.cpu()));
                for (BlockRequest request : requests.get(i)) {
                    request.kept[k] = new UnsafeBuffer(floats.address() + 4 * request.block.from(), request.bytes());
                }
            }
        }
    }

    /** Sets the number of steps that led to a parameter's state; with 0, servers do not receive the state. */
    public void keptSteps(int parameter, long steps) {
        requests.get(parameter).forEach(each -> each.keptSteps = steps);
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
