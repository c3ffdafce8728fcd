/**
 * Arrays and the functions on them. Where to look for a function:
 *
 * <table class="striped"><caption>Classes by topic</caption>
 * <tr><th>topic</th><th>class</th></tr>
 * <tr><td>tensors of numbers: {@code of, scalar, zeros, ones, full, eye, arange, linspace}</td>
 *     <td>{@link dev.starling.tensor.Tensor}</td></tr>
 * <tr><td>tensors made of other tensors: {@code concat, stack, broadcast}</td>
 *     <td>{@link dev.starling.tensor.Tensor}</td></tr>
 * <tr><td>tensors of random numbers</td><td>{@link dev.starling.tensor.Generator}</td></tr>
 * <tr><td>tensors in NumPy files</td><td>{@link dev.starling.tensor.NpyFile}</td></tr>
 * <tr><td>elementwise functions, activations, comparisons</td><td>{@link dev.starling.tensor.Arithmetic}</td></tr>
 * <tr><td>sums, maxima, softmax, sorting, matrix products</td><td>{@link dev.starling.tensor.Reductions}</td></tr>
 * <tr><td>other sizes, transposition, splitting, padding</td><td>{@link dev.starling.tensor.Shaping}</td></tr>
 * <tr><td>reading and writing at positions, gathering</td><td>{@link dev.starling.tensor.Indexing}</td></tr>
 * <tr><td>elements as Java arrays and numbers</td><td>{@link dev.starling.tensor.HostAccess}</td></tr>
 * <tr><td>dense layers, embeddings, dropout, attention</td><td>{@link dev.starling.tensor.Functions}</td></tr>
 * <tr><td>convolutions</td><td>{@link dev.starling.tensor.Convolutions}</td></tr>
 * <tr><td>pooling</td><td>{@link dev.starling.tensor.Pools}</td></tr>
 * <tr><td>normalisation</td><td>{@link dev.starling.tensor.Norms}</td></tr>
 * <tr><td>LSTM, GRU and simple recurrent layers</td><td>{@link dev.starling.tensor.Recurrences}</td></tr>
 * <tr><td>losses</td><td>{@link dev.starling.tensor.Losses}</td></tr>
 * <tr><td>sums of products by their indices</td><td>{@link dev.starling.tensor.Einsum}</td></tr>
 * </table>
 *
 * <p>The methods of Arithmetic, Reductions, Shaping, Indexing and HostAccess are called on a tensor, {@code x.exp()}.
 * {@code docs/functions.md} lists all functions by name. {@link dev.starling.tensor.Scope} owns the memory,
 * {@link dev.starling.tensor.Device} selects the processor.
 */
package dev.starling.tensor;
