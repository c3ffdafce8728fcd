package dev.starling.distributed.collective.call;

/** An implementation of collectives, which runs one at a time and reuses its memory. */
public interface Algorithm extends StateMachine {
    /**
     * Begins a collective; the previous one must be done.
     *
     * @param memory that contains the elements; a barrier accesses none
     * @param offset of the elements, in bytes
     */
    void begin(CollectiveCall call, SymmetricMemory memory, long offset);
}
