package dev.starling.transport.simulated;

import java.util.ArrayList;
import java.util.List;

/** A process: one incarnation, up to its crash. */
final class SimulatedProcess {
    final String name;
    final List<SimulatedWire> wires = new ArrayList<>();
    int pauses;
    int operationsLeft = -1;
    String doom;

    SimulatedProcess(String name) {
        this.name = name;
    }
}
