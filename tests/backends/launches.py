"""The launches that layers are made of, as texts with gaps for widths and heads."""

RGCN = """
launch
  buffer x: node[{d}]
  buffer root: shared[{d},{d}]
  buffer w: etype[{d},{d}]
  buffer bias: shared[{d}]
  buffer scale: dst_pair@a[]
  buffer t: src_pair@b[{d}]
  buffer inv: edge[]
  buffer y: node[{d}]
  gemm y[node] = x @ root + bias heads=1 k={d} n={d}
  gemm y[dst_pair@a -> node] += scale * sum(x[src]) @ w heads=1 k={d} n={d}
  traverse node
    init acc: [{d}] sum
    for edge@b
      h: [{d}] = read t
      c: [] = read inv
      m: [{d}] = mul(c, h)
      update acc m
    store y += acc
"""

TRANSFORM = """
launch
  buffer x: node[{d}]
  buffer w: etype[{d},{d}]
  buffer t: src_pair@b[{d}]
  gemm t[src_pair@b] = x[src] @ w heads=1 k={d} n={d}
"""

GATHERED = """
launch
  buffer x: node[{h},{k}]
  buffer w: etype[{h},{k},{n}]
  buffer t: src_pair[{h},{n}]
  gemm t[src_pair] = x[src] @ w heads={h} k={k} n={n}
"""

SCORES = """
launch
  buffer x: node[{d}]
  buffer a: etype[{h},{d}]
  buffer s: src_pair[{h}]
  traverse src_pair
    xs: [{d}] = read x[src]
    a_row: [{h},{d}] = read a
    score: [{h}] = dot(a_row, xs)
    store s = score
"""

SOFTMAX = """
launch
  buffer s_src: src_pair[{h}]
  buffer s_dst: dst_pair[{h}]
  buffer alpha: edge[{h}]
  buffer x: node[{h},{d}]
  buffer w: etype[{h},{d},{d}]
  buffer y: node[{h},{d}]
  traverse node
    softmax share: [{h}] over edge to alpha
      scores edge
        a: [{h}] = read s_src
        b: [{h}] = read s_dst
        sum: [{h}] = add(a, b)
        s: [{h}] = leaky_relu(sum, const=0.2)
        score s
  gemm y[dst_pair -> node] += sum(alpha * x[src]) @ w heads={h} k={d} n={d}
"""

ATTEND = """
launch
  buffer k: node[{h},{d}]
  buffer q: dst_pair[{h},{d}]
  buffer v: node[{h},{d}]
  buffer skip: ntype[]
  buffer x: node[{h},{d}]
  buffer score: edge[{h}]
  buffer y: node[{h},{d}]
  traverse node
    init top: [{h}] max
    for dst_pair
      query: [{h},{d}] = read q
      for edge
        key: [{h},{d}] = read k[src]
        s: [{h}] = dot(key, query)
        store score = s
        update top s
    init total: [{h}] sum
    init acc: [{h},{d}] sum
    for edge
      raw: [{h}] = read score
      shifted: [{h}] = sub(raw, top)
      p: [{h}] = exp(shifted)
      update total p
      value: [{h},{d}] = read v[src]
      message: [{h},{d}] = mul(p, value)
      update acc message
    one: [{h}] = add(total, total)
    old: [{h},{d}] = read x
    gate: [] = read skip
    open: [] = sigmoid(gate)
    closed: [] = one_minus(open)
    active: [{h},{d}] = gelu(acc)
    new: [{h},{d}] = mul(open, active)
    kept: [{h},{d}] = mul(closed, old)
    both: [{h},{d}] = add(new, kept)
    store y = both
"""

NARROW = """
launch
  buffer x: node[{h},{d}]
  buffer w: ntype[{h},{d},3]
  buffer bias: ntype[{n}]
  buffer y: node[{n}]
  gemm y[node] = x @ w + bias heads={h} k={d} n=3
"""

WEIGHTED = """
launch
  buffer a: edge[{h}]
  buffer x: node[{h},{d}]
  buffer p: edge[{h}] in scratch p
  buffer y: node[{h},{d}]
  traverse node
    softmax p: [{h}] over edge to p
      scores edge
        s: [{h}] = read a
        score s
  traverse node
    init acc: [{h},{d}] sum
    for edge
      share: [{h}] = read p
      row: [{h},{d}] = read x[src]
      m: [{h},{d}] = mul(share, row)
      update acc m
    store y = acc
"""
"""A softmax, and the sum that it weights."""

ATTENTION = """
launch
  buffer a: edge[{h}]
  buffer b: src_pair@b[{h}]
  buffer x: node[{h},{d}]
  buffer v: src_pair@b[{h},{d}]
  buffer p: edge[{h}] in scratch p
  buffer y: node[{h},{d}]
  traverse node
    softmax p: [{h}] over edge to p
      scores edge@a
        s: [{h}] = read a
        score s
      scores edge@b
        t: [{h}] = read b
        score t
  traverse node
    init acc: [{h},{d}] sum
    for edge@a
      share: [{h}] = read p
      row: [{h},{d}] = read x[src]
      m: [{h},{d}] = mul(share, row)
      update acc m
    for edge@b
      share: [{h}] = read p
      row: [{h},{d}] = read v
      m: [{h},{d}] = mul(share, row)
      update acc m
    store y = acc
"""
"""A softmax over two groups of edges, and the sum that it weights, of rows of both."""

ACTIVATED = """
launch
  buffer x: node[{h},{d}]
  buffer t: node[{h},{d}] in scratch t
  buffer t_flat: node[{n}] in scratch t
  buffer w: ntype[{n},{n}]
  buffer b: ntype[{n}]
  buffer p: node[{n}] in scratch p
  buffer gate: ntype[]
  buffer c: shared[{n}]
  buffer total: node[]
  buffer y: node[{n}]
  traverse node
    raw: [{h},{d}] = read x
    active: [{h},{d}] = gelu(raw)
    store t = active
  gemm p[node] = t_flat @ w + b heads=1 k={n} n={n}{only}
  traverse node
    column: [] = read gate
    open: [] = sigmoid(column)
    closed: [] = one_minus(open)
    row: [{n}] = read p
    new: [{n}] = mul(open, row)
    old: [{n}] = read c
    weight: [] = read total
    kept: [{n}] = mul(weight, old)
    less: [{n}] = mul(closed, kept)
    both: [{n}] = add(new, less)
    store y = both
"""
"""An activation, a product of its rows, and a skip connection; names like those of its kernel."""

ACTIVATED_PAIRS = """
launch
  buffer x: {kind}[2,{d}]
  buffer w: etype[2,{d},{d}]
  buffer scale: {kind}[2]
  buffer p: {kind}[2,{d}]
  buffer q: etype[2,{d}]
  buffer z: node[2,{d}]
  buffer y: {kind}[2,{d}]
  gemm p[{rows}] = scale * x @ w heads=2 k={d} n={d}
  traverse {rows}
    row: [2,{d}] = read p
    typed: [2,{d}] = read q
    node: [2,{d}] = read z[dst]
    sum: [2,{d}] = add(row, typed)
    more: [2,{d}] = mul(sum, node)
    active: [2,{d}] = tanh(more)
    store y += active
"""
"""A product with heads of which other rows, those of types and nodes, are part; it is kept."""

SOURCE_PAIRS = """
launch
  buffer x: node[{d}]
  buffer w: etype[{d},{d}]
  buffer q: etype[]
  buffer z: node[{d}]
  buffer t: src_pair@a[{d}]
  gemm p[src_pair@a] = x[src] @ w heads=1 k={d} n={d}
    gate: [] = read q
    more: [{d}] = mul(gate, p)
    node: [{d}] = read z[src]
    both: [{d}] = maximum(more, node)
    store t = both
"""
"""A product of the rows of source pairs that has a tail."""

FUNCTIONS = ("relu", "gelu", "exp", "sigmoid", "tanh", "one_minus", "scale", "leaky_relu")
"""What a product's operand may go through."""

WALK = """
launch
  buffer x: node[{d}]
  buffer y: node[{d}]
  traverse node
    init total: [{d}] sum
    for edge
      row: [{d}] = read x[src]
      update total row
    store y = total
"""

PAIRS = """
launch
  buffer x: node[{k}]
  buffer w: etype[{k},{n}]
  buffer y: node[{n}]
  gemm y[dst_pair -> node] += sum(x[src]) @ w heads=1 k={k} n={n}
"""
