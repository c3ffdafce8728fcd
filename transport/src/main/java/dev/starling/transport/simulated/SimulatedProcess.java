package dev.starling.transport.simulated;

import java.util.ArrayList;
import java.util.List;

/** One incarnation of a simulated process, up to its crash. */
final class SimulatedProcess {
    final String name;
    final List<SimulatedWire> wires = new ArrayList<>();
    int pauses;
    int operationsLeft = -1;
    String endReason;

    SimulatedProcess(String name) {
        this.name = name;
    }
}
