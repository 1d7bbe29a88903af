"use strict";
// Adapter protocol 2 around a limiter: JSON over HTTP, at the PORT that the host
// gives. Standard error is the host's log.

const http = require("node:http");
const { createHash, timingSafeEqual } = require("node:crypto");
const { Limiter, now } = require("./limiter.js");

const secret = process.env.PACELINE_SLOT_SECRET ?? "";
let limiter; // undefined while the slot is closed
let kept; // what was counted, while it is

// A Fault is an error with a code of the protocol.
class Fault extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

// Instants have three decimals and are rounded up, so that nobody asks early.
const latest = Date.UTC(9999, 11, 31, 23, 59, 59, 999);
const instant = (at) => new Date(Math.min(Math.ceil(at), latest)).toISOString();

// What is said about a call's params: a check for each, that throws what is wrong.
const bad = (message) => {
  throw new Fault("invalid_params", message);
};
const check = {
  text: (v, name) => typeof v === "string" || bad(`${name} is no text`),
  number: (v, name) => (Number.isSafeInteger(v) && v > 0) || bad(`${name} is no whole number from 1 on`),
  total: (v, name) => (Number.isSafeInteger(v) && v >= 0) || bad(`${name} is no whole number from 0 on`),
  list: (v, name) => Array.isArray(v) || bad(`${name} is no list`),
  object: (v, name) => (typeof v === "object" && v !== null && !Array.isArray(v)) || bad(`${name} is no object`),
  instant: (v, name) =>
    (typeof v === "string" && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(v) && !Number.isNaN(Date.parse(v))) ||
    bad(`${name} is no instant such as 2026-11-29T12:00:00.000Z`),
};
const optional = (kind, v, name) => v == null || check[kind](v, name);

// plain drops what is null, which stands for what is left out.
const plain = (o) => Object.fromEntries(Object.entries(o).filter(([, v]) => v != null));

function request(p, name = "params") {
  check.object(p, name);
  check.text(p.key, "key");
  check.list(p.limits, "limits");
  optional("number", p.cost, "cost");
  optional("number", p.holdMs, "holdMs");
  const limits = p.limits.map((l, i) => {
    const at = `limits[${i}]`;
    check.object(l, at);
    check.text(l.key, `${at}.key`);
    for (const n of ["calls", "perMs", "concurrent", "cost"]) optional("number", l[n], `${at}.${n}`);
    if ((l.calls == null) !== (l.perMs == null)) bad(`${at}: calls and perMs go together`);
    if (l.calls == null && l.concurrent == null) bad(`${at} limits nothing`);
    if (l.concurrent != null && p.holdMs == null) bad(`${at} names concurrent, so the request needs holdMs`);
    if (p.limits.findIndex((o) => o.key === l.key && (o.perMs ?? 0) === (l.perMs ?? 0)) < i) bad(`${at} names a window twice`);
    return plain(l);
  });
  return { ...plain(p), limits };
}

function costs(list) {
  check.list(list, "costs");
  for (const c of list) {
    check.object(c, "costs");
    check.text(c.key, "costs.key");
    check.total(c.cost, "costs.cost");
  }
}

// answer is a decision as the wire has it.
function answer(d) {
  if (d.granted) return { ...d, now: instant(d.now) };
  return {
    granted: false,
    now: instant(d.now),
    retryAt: instant(d.retryAt),
    retryAfterMs: Math.max(1, Math.ceil(d.retryAt - d.now)),
    refused: d.refused.map((r) => ({ ...r, retryAt: instant(r.retryAt) })),
  };
}

const methods = {
  acquire: (p) => answer(limiter.acquire(request(p))),
  acquireBatch(p) {
    check.list(p.requests, "requests");
    const requests = p.requests.map((r, i) => request(r, `requests[${i}]`)); // all, before any is judged
    return { results: limiter.acquireBatch({ requests }).map(answer) };
  },
  settle(p) {
    check.text(p.permit, "permit");
    costs(p.costs);
    limiter.settle(p);
    return {};
  },
  release(p) {
    check.text(p.permit, "permit");
    if (p.costs != null) {
      costs(p.costs);
      limiter.settle(p);
    }
    limiter.release(p);
    return {};
  },
  renew(p) {
    check.list(p.permits, "permits");
    for (const id of p.permits) check.text(id, "permits");
    check.number(p.holdMs, "holdMs");
    limiter.renew(p);
    return {};
  },
  throttle(p) {
    check.text(p.key, "key");
    check.instant(p.until, "until");
    optional("number", p.forMs, "forMs");
    // The caller's clock may be another: what is left of the wait is the same.
    limiter.throttle({ key: p.key, until: p.forMs != null ? now() + p.forMs : Date.parse(p.until) });
    return {};
  },
  openKey(p) {
    check.text(p.key, "key");
    limiter.openKey(p);
    return {};
  },
};

function call(body) {
  if (body.protocolVersion !== "2") throw new Fault("unsupported_version", "this is adapter protocol 2");
  const { method, params = {} } = body;
  if (method === "open") {
    limiter = kept ??= new Limiter();
    return {};
  }
  if (method === "close") {
    limiter = undefined;
    return {};
  }
  if (!Object.hasOwn(methods, method)) throw new Fault("unknown_method", `there is no method ${JSON.stringify(method)} here`);
  if (!limiter) throw new Fault("not_open", "the slot is closed: call open");
  check.object(params, "params");
  return methods[method](params);
}

const digest = (s) => createHash("sha256").update(s).digest();
const authorized = (req) => secret === "" || timingSafeEqual(digest(req.headers.authorization ?? ""), digest(`Bearer ${secret}`));

function reply(res, status, body) {
  res.writeHead(status, { "Content-Type": "application/json" });
  res.end(JSON.stringify(body));
}

const mostBytes = 4 << 20;

const server = http.createServer(async (req, res) => {
  if (req.method === "GET" && req.url.endsWith("/health")) return reply(res, 200, { ok: true, result: {} });
  if (req.method !== "POST") return reply(res, 405, { error: "calls are POSTed" });
  const chunks = [];
  let bytes = 0;
  try {
    for await (const chunk of req) {
      if ((bytes += chunk.length) <= mostBytes) chunks.push(chunk);
    }
  } catch {
    return; // whoever asked has left
  }
  if (bytes > mostBytes) return reply(res, 413, { error: "the call is too large" });
  let body;
  try {
    body = JSON.parse(Buffer.concat(chunks).toString());
    check.object(body, "the call");
  } catch {
    return reply(res, 400, { error: "the call is no JSON object" });
  }
  try {
    if (!authorized(req)) throw new Fault("unauthorized", "show the secret as Authorization: Bearer SECRET");
    reply(res, 200, { ok: true, result: call(body) });
  } catch (err) {
    if (!(err instanceof Fault)) console.error(err);
    const code = err.code ?? "unavailable";
    reply(res, 200, { ok: false, error: { code, message: err.message, retryable: !(err instanceof Fault) } });
  }
});

server.listen(Number(process.env.PORT ?? 0), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}`); // the first line says where it is
});
process.on("SIGTERM", () => {
  server.close();
  server.closeAllConnections();
});
