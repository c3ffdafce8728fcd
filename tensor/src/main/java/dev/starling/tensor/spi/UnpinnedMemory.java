package dev.starling.tensor.spi;

/** Memory that the device cannot copy asynchronously: the host waits for each copy. */
record UnpinnedMemory(Backend backend, long address) implements PinnedMemory {
    @Override
    public Part part(long offset, long bytes) {
        return new Part() {
            @Override
            public void download(long deviceAddress) {
                backend.download(deviceAddress, address + offset, bytes);
            }

            @Override
            public void upload(long deviceAddress) {
                backend.upload(address + offset, deviceAddress, bytes);
            }

            @Override
            public boolean isDone() {
                return true;
            }

            @Override
            public void close() { }
        };
    }

    @Override
    public void close() { }
}
