package dev.starling.tensor.spi;

/** Collectives between devices of one machine, each of which has a process or thread of its own. */
public interface DeviceCollectives {
    /** Returns this device's name, unique on the machine. */
    String device();

    /** Returns a new, unique group identifier of about 128 bytes: one rank makes it and sends it to all ranks. */
    byte[] identifier();

    /**
     * Begins to join a group, as all its ranks must, each with a device of its own. {@link DeviceGroup#isDone} returns
     * true when all have joined.
     *
     * @param identifier identifies the group; the same on all ranks
     * @param rank from 0 to {@code world - 1}
     * @throws dev.starling.tensor.TensorException if the library reports an error
     */
    DeviceGroup join(byte[] identifier, int rank, int world);
}
