package dev.starling.transport.simulated;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** One incarnation of a simulated process, up to its crash. */
final class SimulatedProcess {
    final String name;
    final List<SimulatedWire> wires = new ArrayList<>();
    int pauses;
    int operationsLeft = -1;
    /** {@code null} while the process runs. */
    @Nullable String endReason;

    SimulatedProcess(String name) {
        this.name = name;
    }
}
